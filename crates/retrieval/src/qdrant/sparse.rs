//! Words as sparse vectors: a dimension per token, weighed as in the ranking; Qdrant adds how rare each one is.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    pipeline::NewPassage,
    rank::{self, Subject},
};

/// The name of the sparse vector.
pub(super) const WORDS: &str = "words";

/// The vectors of a passage by their names. One without words has none.
pub(super) fn of_passage(path: &str, passage: &NewPassage) -> Value {
    let subject = Subject { symbol: passage.symbol.as_deref(), path, text: &passage.passage.text };
    let mut weights: BTreeMap<u32, f64> = BTreeMap::new();
    for (token, weight) in rank::weights(&subject) {
        *weights.entry(dimension(&token)).or_default() += weight;
    }
    if weights.is_empty() { json!({}) } else { json!({WORDS: vector(weights)}) }
}

pub(super) fn of_question(terms: &[String]) -> Value {
    vector(terms.iter().map(|term| (dimension(term), 1.0)).collect())
}

fn vector(weights: BTreeMap<u32, f64>) -> Value {
    let (indices, values): (Vec<u32>, Vec<f64>) = weights.into_iter().unzip();
    json!({"indices": indices, "values": values})
}

/// FNV-1a. Tokens that share a dimension are told apart when what was found is ranked.
fn dimension(token: &str) -> u32 {
    token.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
