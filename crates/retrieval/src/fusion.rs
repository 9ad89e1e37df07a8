//! One order out of two.

use std::{collections::HashMap, hash::Hash};

use skein_core::ports::{Chunk, Found};

/// Dampens the first ranks, so that no list alone decides.
const DAMPING: f64 = 60.0;

/// Reciprocal-rank fusion. What is first in every list has score 1.
pub(crate) fn fused<K: Eq + Hash + Clone>(lists: &[Vec<K>]) -> HashMap<K, f64> {
    let most = lists.len().max(1) as f64 / (DAMPING + 1.0);
    let mut scores: HashMap<K, f64> = HashMap::new();
    for list in lists {
        for (rank, key) in list.iter().enumerate() {
            *scores.entry(key.clone()).or_default() += 1.0 / (DAMPING + 1.0 + rank as f64) / most;
        }
    }
    scores
}

/// What is handed out, with a note when an endpoint should have helped and did not.
pub(crate) fn found_by(chunks: Vec<Chunk>, lacks_meaning: bool) -> Found {
    let note =
        "passages were looked for by their words only: the embedding endpoint does not answer";
    Found { chunks, notes: lacks_meaning.then(|| note.to_owned()).into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_lists_know_comes_first() {
        let scores = fused(&[vec!["a", "b", "c"], vec!["b", "d"]]);

        let mut order: Vec<_> = scores.keys().copied().collect();
        order.sort_by(|a, b| scores[b].total_cmp(&scores[a]));
        assert_eq!(order[..2], ["b", "a"]);
        assert!((fused(&[vec![1], vec![1]])[&1] - 1.0).abs() < 1e-9);
    }
}
