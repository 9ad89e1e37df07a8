//! How well a passage answers a question.

use std::collections::HashMap;

use crate::{
    query::Question,
    tokens::{folded, tokens},
};

/// BM25F: how much a token counts where it stands, the usual number of tokens there, and how much being longer hurts.
const FIELDS: [Field; 3] = [
    Field { weight: 4.0, usual: 4.0, shortness: 0.3 },
    Field { weight: 2.5, usual: 6.0, shortness: 0.3 },
    Field { weight: 1.0, usual: 140.0, shortness: 0.6 },
];
const SATURATION: f64 = 1.6;

/// What a passage gains that defines what is surely asked for.
const DEFINITION: f64 = 0.5;

/// What a file gains for each further good passage of its own.
const COMPANY: f64 = 0.08;
const MAX_COMPANY: f64 = 0.24;

struct Field {
    weight: f64,
    usual: f64,
    shortness: f64,
}

/// What ranking looks at.
pub(crate) struct Subject<'a> {
    pub symbol: Option<&'a str>,
    pub path: &'a str,
    pub text: &'a str,
}

/// A question with what its tokens are worth in one corpus.
pub(crate) struct Ranking<'a> {
    question: &'a Question,
    worth: HashMap<&'a str, (usize, f64)>,
    total: f64,
}

impl<'a> Ranking<'a> {
    /// `frequencies`: how many of the `passages` have each of the question's terms.
    pub(crate) fn new(question: &'a Question, frequencies: &[u64], passages: u64) -> Self {
        let pairs = question.terms.iter().zip(frequencies).enumerate();
        let worth: HashMap<&str, (usize, f64)> = pairs
            .map(|(at, (term, count))| (term.as_str(), (at, rarity(*count, passages))))
            .collect();
        let total = worth.values().map(|(_, worth)| worth).sum::<f64>().max(f64::MIN_POSITIVE);
        Self { question, worth, total }
    }

    /// 0 when nothing matches; about 1 when everything does; more for a definition.
    pub(crate) fn score(&self, subject: &Subject<'_>) -> f64 {
        let mut weights = vec![0.0; self.worth.len()];
        let texts = [subject.symbol.unwrap_or_default(), subject.path, subject.text];
        for (field, text) in FIELDS.iter().zip(texts) {
            self.add(field, text, &mut weights);
        }
        let matched: f64 = self
            .worth
            .values()
            .map(|(at, worth)| worth * weights[*at] / (SATURATION + weights[*at]))
            .sum();
        let relevance = matched * (1.0 + SATURATION) / self.total / 2.0;
        let definition = DEFINITION * self.defines(subject.symbol.unwrap_or_default());
        (relevance + definition * relevance.min(1.0).sqrt()) * self.standing(subject.path)
    }

    fn add(&self, field: &Field, text: &str, weights: &mut [f64]) {
        let mut counts = vec![0_u32; weights.len()];
        let mut length = 0_u32;
        tokens(text, |token| {
            length += 1;
            if let Some((at, _)) = self.worth.get(token) {
                counts[*at] += 1;
            }
        });
        let stretch = 1.0 - field.shortness + field.shortness * f64::from(length) / field.usual;
        for (weight, count) in weights.iter_mut().zip(counts) {
            *weight += field.weight * f64::from(count) / stretch.max(0.3);
        }
    }

    /// How surely one of the symbols is what is asked for.
    fn defines(&self, symbols: &str) -> f64 {
        let names = symbols.split(", ").flat_map(|symbol| {
            let last = symbol.rsplit([':', '.', '>']).next().unwrap_or(symbol);
            [folded(last), folded(symbol)]
        });
        let sure = names.filter(|name| !name.is_empty()).map(|name| {
            let meant = self.question.names.iter().find(|(asked, _)| *asked == name);
            meant.map_or(0.0, |(_, weight)| *weight)
        });
        sure.fold(0.0, f64::max)
    }

    /// Tests, lock files and histories repeat what is defined elsewhere.
    fn standing(&self, path: &str) -> f64 {
        const TESTS: &[&str] =
            &["test", "tests", "spec", "specs", "__tests__", "testdata", "fixtures"];
        const ASIDE: &[&str] =
            &["bench", "benches", "example", "examples", "vendor", "third_party"];
        let lower = path.to_ascii_lowercase();
        let name = lower.rsplit('/').next().unwrap_or(&lower);
        let stem = name.split('.').next().unwrap_or(name);
        let has = |names: &[&str]| lower.split('/').any(|part| names.contains(&part));
        let is_test = has(TESTS)
            || ["test_"].iter().any(|start| stem.starts_with(start))
            || ["_test", "_tests", "test", "tests"].iter().any(|end| stem.ends_with(end))
            || name.contains(".test.")
            || name.contains(".spec.");
        let is_list =
            name.ends_with(".lock") || name == "package-lock.json" || name.ends_with("-lock.yaml");
        let is_history = ["changelog", "changes", "history", "releases"].contains(&stem);
        let test = if is_test && !self.question.is_about_tests { 0.75 } else { 1.0 };
        let aside = if has(ASIDE) { 0.85 } else { 1.0 };
        let list = if is_list { 0.3 } else { 1.0 };
        let history = if is_history { 0.6 } else { 1.0 };
        test * aside * list * history
    }
}

/// Adds to each score what the file's other passages tell about it. `files` names the file of each.
pub(crate) fn add_company(scores: &mut [f64], files: &[i64]) {
    let mut sums: HashMap<i64, f64> = HashMap::new();
    for (score, file) in scores.iter().zip(files) {
        *sums.entry(*file).or_default() += score;
    }
    for (score, file) in scores.iter_mut().zip(files) {
        let others = sums.get(file).map_or(0.0, |sum| sum - *score);
        *score += (others * COMPANY).min(*score * MAX_COMPANY);
    }
}

/// Rare tokens tell more.
fn rarity(count: u64, passages: u64) -> f64 {
    let (count, passages) = (count as f64, (passages as f64).max(count as f64));
    (1.0 + (passages - count + 0.5) / (count + 0.5)).ln()
}
