//! Which passages are worth reading for a question.
//!
//! Rare tokens are weighed by the full-text table, with how often they occur; that costs much per occurrence. For
//! common ones it is enough that they occur, and in which column: ten times cheaper. What is everywhere is left to
//! the ranking of those that were read.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, HashMap},
    hash::{BuildHasherDefault, Hasher},
};

use rusqlite::Connection;

use super::{corpus::Corpus, search::Part};
use crate::query::rarity;

/// Occurrences that are weighed.
const MAX_WEIGHED: u64 = 1_200;

/// Occurrences that are looked at; of a token that alone has more, the first.
const MAX_OCCURRENCES: u64 = 3_000;

/// What it adds, in parts of a token's worth, that it is in a name or in the path. Telling one from the other would cost
/// another look at every occurrence.
const NAMED: f64 = 1.0;

type Weights = HashMap<i64, f64, BuildHasherDefault<RowHasher>>;

/// Rows of passages, the most promising first.
pub(super) fn candidates(
    db: &Connection,
    corpus: &Corpus,
    part: Part<'_>,
    terms: &[(u64, &str)],
) -> rusqlite::Result<Candidates> {
    let mut known: Vec<(u64, &str)> =
        terms.iter().copied().filter(|(count, _)| *count > 0).collect();
    known.sort_unstable();
    let weighed = affordable(&known, MAX_WEIGHED, 0);
    let looked_at = affordable(&known, MAX_OCCURRENCES, 1);
    let scope = scope(part);
    let mut weights = Weights::default();
    if weighed > 0 {
        let words: Vec<String> = known[..weighed].iter().map(|(_, term)| quoted(term)).collect();
        weigh(db, corpus, &format!("{scope}({})", words.join(" OR ")), &mut weights)?;
    }
    for (count, term) in &known[weighed..looked_at] {
        let worth = rarity(*count, corpus.chunks);
        let word = quoted(term);
        add(db, corpus, &format!("{scope}({word})"), worth, &mut weights)?;
        let named = format!("{scope}({{symbol path}} : {word})");
        add(db, corpus, &named, worth * NAMED, &mut weights)?;
    }
    let rows: Vec<Candidate> =
        weights.into_iter().map(|(row, weight)| Candidate { row, weight }).collect();
    Ok(Candidates(rows.into()))
}

/// Put in order only as far as somebody asks.
pub(super) struct Candidates(BinaryHeap<Candidate>);

impl Iterator for Candidates {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        self.0.pop().map(|candidate| candidate.row)
    }
}

struct Candidate {
    row: i64,
    weight: f64,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.weight.total_cmp(&other.weight).then_with(|| other.row.cmp(&self.row))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate {}

/// How many of the rarest tokens have no more than `limit` occurrences together; at least `least`.
fn affordable(known: &[(u64, &str)], limit: u64, least: usize) -> usize {
    let mut sum = 0_u64;
    let fit = known.iter().take_while(|(count, _)| {
        sum = sum.saturating_add(*count);
        sum <= limit
    });
    fit.count().max(least.min(known.len()))
}

/// Tokens are letters and digits, so nothing in a question can be taken for syntax.
fn quoted(term: &str) -> String {
    format!("\"{}\"", term.replace('"', ""))
}

fn scope(part: Part<'_>) -> String {
    match part {
        Part::Repo => String::new(),
        Part::Documents(logs) => {
            let logs: Vec<String> =
                logs.iter().map(|log| quoted(&log.as_uuid().simple().to_string())).collect();
            format!("(scope : ({})) AND ", logs.join(" OR "))
        }
    }
}

fn weigh(
    db: &Connection,
    corpus: &Corpus,
    expression: &str,
    weights: &mut Weights,
) -> rusqlite::Result<()> {
    let id = corpus.id;
    let mut statement = db.prepare_cached(&format!(
        "SELECT rowid, bm25(fts_{id}, 0.0, 4.0, 2.5, 1.0) FROM fts_{id} WHERE fts_{id} MATCH ?1"
    ))?;
    let mut rows = statement.query([expression])?;
    while let Some(row) = rows.next()? {
        // The better, the more negative.
        let weight: f64 = row.get(1)?;
        *weights.entry(row.get(0)?).or_default() -= weight;
    }
    Ok(())
}

fn add(
    db: &Connection,
    corpus: &Corpus,
    expression: &str,
    worth: f64,
    weights: &mut Weights,
) -> rusqlite::Result<()> {
    let id = corpus.id;
    let mut statement =
        db.prepare_cached(&format!("SELECT rowid FROM fts_{id} WHERE fts_{id} MATCH ?1"))?;
    let rows = statement.query_map([expression], |row| row.get(0))?;
    for row in rows.take(MAX_OCCURRENCES as usize) {
        *weights.entry(row?).or_default() += worth;
    }
    Ok(())
}

/// Row numbers are our own and need no defence.
#[derive(Default)]
struct RowHasher(u64);

impl Hasher for RowHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_i64(i64::from(*byte));
        }
    }

    fn write_i64(&mut self, number: i64) {
        self.0 =
            (self.0 ^ number.cast_unsigned()).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}
