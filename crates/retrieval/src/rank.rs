//! How well a passage answers a question.

use std::{collections::HashMap, hash::Hash};

use skein_core::ports::Chunk;

use crate::{
    query::{Question, rarity},
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

/// What a passage gains whose file is called what is surely asked for.
const FILE_NAME: f64 = 0.25;

/// What a file gains for each further good passage of its own.
const COMPANY: f64 = 0.08;
const MAX_COMPANY: f64 = 0.24;

struct Field {
    weight: f64,
    usual: f64,
    shortness: f64,
}

impl Field {
    /// What a token counts that stands so often among so many.
    fn weighed(&self, count: u32, length: u32) -> f64 {
        let stretch = 1.0 - self.shortness + self.shortness * f64::from(length) / self.usual;
        self.weight * f64::from(count) / stretch.max(0.3)
    }
}

/// What ranking looks at.
pub(crate) struct Subject<'a> {
    pub symbol: Option<&'a str>,
    pub path: &'a str,
    pub text: &'a str,
}

impl<'a> Subject<'a> {
    pub(crate) fn of(chunk: &'a Chunk) -> Self {
        Self { symbol: chunk.symbol.as_deref(), path: &chunk.path, text: &chunk.text }
    }
}

/// What each token counts in a passage, wherever it stands in it; 1 at most.
pub(crate) fn weights(subject: &Subject<'_>) -> HashMap<String, f64> {
    let mut weights: HashMap<String, f64> = HashMap::new();
    let texts = [subject.symbol.unwrap_or_default(), subject.path, subject.text];
    for (field, text) in FIELDS.iter().zip(texts) {
        let mut counts: HashMap<String, u32> = HashMap::new();
        let mut length = 0_u32;
        tokens(text, |token| {
            length += 1;
            *counts.entry(token.to_owned()).or_default() += 1;
        });
        for (token, count) in counts {
            *weights.entry(token).or_default() += field.weighed(count, length);
        }
    }
    weights.values_mut().for_each(|weight| *weight /= SATURATION + *weight);
    weights
}

/// A question with what its tokens are worth in one corpus.
pub(crate) struct Ranking<'a> {
    question: &'a Question,
    /// Where each token stands among the question's terms.
    places: HashMap<&'a str, usize>,
    /// In the order of the terms, in which they are also added up: another order rounds to another score.
    worth: Vec<f64>,
    total: f64,
}

impl<'a> Ranking<'a> {
    /// `frequencies`: how many of the `passages` have each of the question's terms.
    pub(crate) fn new(question: &'a Question, frequencies: &[u64], passages: u64) -> Self {
        let terms = question.terms.iter().enumerate();
        let places = terms.map(|(at, term)| (term.as_str(), at)).collect();
        let worth: Vec<f64> = frequencies.iter().map(|count| rarity(*count, passages)).collect();
        let total = worth.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        Self { question, places, worth, total }
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
            .iter()
            .zip(&weights)
            .map(|(worth, weight)| worth * weight / (SATURATION + weight))
            .sum();
        let relevance = matched * (1.0 + SATURATION) / self.total / 2.0;
        let named = DEFINITION * self.defines(subject) + FILE_NAME * self.names_file(subject.path);
        (relevance + named * relevance.min(1.0).sqrt()) * self.standing(subject)
    }

    fn add(&self, field: &Field, text: &str, weights: &mut [f64]) {
        let mut counts = vec![0_u32; weights.len()];
        let mut length = 0_u32;
        tokens(text, |token| {
            length += 1;
            if let Some(count) = self.places.get(token).and_then(|at| counts.get_mut(*at)) {
                *count += 1;
            }
        });
        for (weight, count) in weights.iter_mut().zip(counts) {
            *weight += field.weighed(count, length);
        }
    }

    /// How surely the passage defines what is asked for: a thing of its own rather than a part of another, by itself
    /// rather than among others, and where it is declared rather than where it is added to.
    fn defines(&self, subject: &Subject<'_>) -> f64 {
        let symbols: Vec<&str> = subject.symbol.unwrap_or_default().split(", ").collect();
        let alone = 1.0 / (1.0 + 0.05 * (symbols.len() - 1) as f64);
        let sure = symbols.iter().map(|symbol| {
            let last = symbol.rsplit([':', '.', '>']).next().unwrap_or(symbol).trim();
            let own = self.meant(&folded(symbol));
            let inner =
                if last.len() < symbol.len() { 0.85 * self.meant(&folded(last)) } else { 0.0 };
            let sure = own.max(inner);
            if sure > 0.0 && !declares(subject.text, last) { 0.6 * sure } else { sure }
        });
        alone * sure.fold(0.0, f64::max)
    }

    fn meant(&self, name: &str) -> f64 {
        let known = self.question.names.iter().find(|(asked, _)| asked == name);
        known.map_or(0.0, |(_, weight)| *weight)
    }

    /// How surely the file is called what is asked for.
    fn names_file(&self, path: &str) -> f64 {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.meant(&folded(name.split('.').next().unwrap_or(name)))
    }

    /// Tests, lock files and histories repeat what is defined elsewhere.
    fn standing(&self, subject: &Subject<'_>) -> f64 {
        const TESTS: &[&str] =
            &["test", "tests", "spec", "specs", "__tests__", "testdata", "fixtures"];
        const ASIDE: &[&str] =
            &["bench", "benches", "example", "examples", "vendor", "third_party"];
        let lower = subject.path.to_ascii_lowercase();
        let name = lower.rsplit('/').next().unwrap_or(&lower);
        let stem = name.split('.').next().unwrap_or(name);
        let has = |names: &[&str]| lower.split('/').any(|part| names.contains(&part));
        let is_inner_test = subject
            .symbol
            .is_some_and(|symbol| symbol.starts_with("test") && symbol.contains("::"));
        let is_test = is_inner_test
            || has(TESTS)
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

/// Whether the text declares the name, as far as one can tell without its language.
fn declares(text: &str, name: &str) -> bool {
    const WORDS: &[&str] = &[
        "struct",
        "enum",
        "trait",
        "class",
        "interface",
        "type",
        "fn",
        "def",
        "func",
        "function",
        "const",
        "static",
        "let",
        "var",
        "mod",
        "namespace",
        "macro_rules!",
        "union",
        "record",
        "#define",
    ];
    !name.is_empty()
        && memchr::memmem::find_iter(text.as_bytes(), name).any(|at| {
            let before = text[..at].trim_end_matches([' ', '*', '&']);
            WORDS.iter().any(|word| before.ends_with(word))
        })
}

/// Adds to each score what the file's other passages tell about it. `files` names the file of each.
pub(crate) fn add_company<F: Copy + Eq + Hash>(scores: &mut [f64], files: &[F]) {
    let mut sums: HashMap<F, f64> = HashMap::new();
    for (score, file) in scores.iter().zip(files) {
        *sums.entry(*file).or_default() += score;
    }
    for (score, file) in scores.iter_mut().zip(files) {
        let others = sums.get(file).map_or(0.0, |sum| sum - *score);
        *score += (others * COMPANY).min(*score * MAX_COMPANY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_has_the_same_score_every_time() {
        let words: Vec<String> = (0..60).map(|n| format!("word{}", letters(n))).collect();
        let text = words.join(" ");
        let question = Question::of(&text);
        let frequencies: Vec<u64> = (0..question.terms.len() as u64).map(|n| n * n + 1).collect();
        let subject = Subject { symbol: None, path: "src/a.rs", text: &text };
        let score = || Ranking::new(&question, &frequencies, 10_000).score(&subject);

        let scores: Vec<u64> = (0..200).map(|_| score().to_bits()).collect();

        assert_eq!(scores, vec![scores[0]; 200]);
    }

    fn letters(n: u8) -> String {
        String::from_utf8(vec![b'a' + n / 26, b'a' + n % 26]).unwrap()
    }
}
