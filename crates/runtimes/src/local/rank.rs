//! Which passages answer a question, and whether any does.

use std::collections::HashMap;

use skein_core::ports::Chunk;

use super::{
    definition::{defined_name, likeness},
    question::{Question, Wants},
    words,
};

/// Below this share of the terms a passage is no answer.
const ENOUGH: f64 = 0.4;
/// A definition counts when it is at least half of what is asked for.
const LIKE: f64 = 0.5;
/// What a passage is worth that only tries out what is defined elsewhere.
const IN_TESTS: f64 = 0.5;
/// A passage with so much less of the question than the best one is no answer beside it.
const LESS: f64 = 0.34;
const MAX_PASSAGES: usize = 4;
const MAX_PER_FILE: usize = 2;
/// What is this much weaker than the best is left out.
const WEAK: f64 = 0.4;

/// What a text has of a question.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Match {
    /// Which of the question's terms are in it, in their order.
    pub(super) terms: Vec<usize>,
    pub(super) coverage: f64,
    /// How surely something that is asked for is defined here.
    pub(super) definition: f64,
}

impl Match {
    /// The path counts too: who asks for "config" means `config.rs`.
    pub(super) fn of(question: &Question, path: &str, symbol: Option<&str>, text: &str) -> Self {
        let mut stems = words::stems(text);
        stems.extend(words::stems(path));
        let has = |stem: &String| stems.contains(stem);
        let terms: Vec<usize> =
            (0..question.terms.len()).filter(|at| has(&question.terms[*at].stem)).collect();
        let coverage = terms.len() as f64 / question.terms.len().max(1) as f64;
        Self { terms, coverage, definition: definition(question, symbol, text) }
    }

    pub(super) fn is_answer(&self) -> bool {
        self.coverage >= ENOUGH || self.definition >= LIKE
    }

    /// Whether it is one beside a passage that has `most` of the question.
    pub(super) fn is_answer_beside(&self, most: f64) -> bool {
        self.is_answer() && (self.coverage > most - LESS || self.definition > LIKE)
    }
}

/// The passages that are worth quoting, best first. When none is, the nearest ones.
pub(super) fn choose(question: &Question, found: Vec<Chunk>) -> Vec<Chunk> {
    let best = found.iter().map(|chunk| chunk.lexical).fold(f64::MIN_POSITIVE, f64::max);
    let mut weighed: Vec<(f64, Match, Chunk)> = found
        .into_iter()
        .map(|chunk| {
            let hit = Match::of(question, &chunk.path, chunk.symbol.as_deref(), &chunk.text);
            (weight(question, &hit, &chunk, best), hit, chunk)
        })
        .collect();
    // Stable: what is equally good stays in the order of the index.
    weighed.sort_by(|a, b| b.0.total_cmp(&a.0));
    if question.wants == Wants::Uses {
        // Whoever asks where something is used finds the definition below.
        weighed.sort_by_key(|(_, hit, _)| hit.definition >= LIKE);
    }
    let is_answered = weighed.iter().any(|(_, hit, _)| hit.is_answer());
    let most = weighed.iter().map(|(_, hit, _)| hit.coverage).fold(0.0, f64::max);
    let least = weighed.first().map_or(0.0, |(weight, _, _)| weight * WEAK);
    let mut per_file: HashMap<String, usize> = HashMap::new();
    let is_worth_it = |(weight, hit, chunk): &(f64, Match, Chunk)| {
        let is_good = *weight >= least && (hit.is_answer_beside(most) || !is_answered);
        let of_file = per_file.entry(chunk.path.clone()).or_default();
        *of_file += usize::from(is_good);
        is_good && *of_file <= MAX_PER_FILE
    };
    let worth_it = weighed.into_iter().filter(is_worth_it);
    worth_it.take(MAX_PASSAGES).map(|(_, _, chunk)| chunk).collect()
}

/// The index knows how rare a word is; this knows what the question wants. Words are what is compared, also when the
/// index has found the passage by its meaning: what is quoted has to show why.
fn weight(question: &Question, hit: &Match, chunk: &Chunk, best: f64) -> f64 {
    let definition = match question.wants {
        Wants::Definition if hit.definition >= LIKE => hit.definition,
        Wants::Definition | Wants::Uses => 0.0,
    };
    let weight = chunk.lexical / best + hit.coverage / 2.0 + definition;
    if is_test(&chunk.path) && !is_about_tests(question) { weight * IN_TESTS } else { weight }
}

fn definition(question: &Question, symbol: Option<&str>, text: &str) -> f64 {
    let symbols = symbol.into_iter().flat_map(|symbols| symbols.split(", "));
    let symbols = symbols.map(|symbol| symbol.rsplit([':', '.', '>']).next().unwrap_or(symbol));
    let names = symbols.chain(text.lines().filter_map(defined_name));
    names.map(|name| likeness(name, question)).fold(0.0, f64::max)
}

fn is_test(path: &str) -> bool {
    let mut parts = path.split(['/', '.', '_']);
    parts.any(|part| {
        matches!(part, "test" | "tests" | "spec" | "specs" | "bench" | "benches" | "examples")
    })
}

fn is_about_tests(question: &Question) -> bool {
    question.terms.iter().any(|term| term.stem == "test")
}
