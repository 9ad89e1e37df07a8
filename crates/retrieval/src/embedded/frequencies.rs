//! In how many passages a token occurs.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use rusqlite::{Connection, OptionalExtension};

use super::corpus::Corpus;

/// Tokens that are remembered over all corpora: counting a common one means reading all its occurrences.
const MAX_KEPT: usize = 200_000;

#[derive(Default)]
pub(super) struct Frequencies(Mutex<HashMap<i64, Counts>>);

#[derive(Default)]
struct Counts {
    generation: i64,
    by_token: HashMap<String, u64>,
}

impl Frequencies {
    /// How many passages of the corpus have each of the tokens.
    pub(super) fn of(
        &self,
        db: &Connection,
        corpus: &Corpus,
        tokens: &[String],
    ) -> rusqlite::Result<Vec<u64>> {
        let known = self.known(corpus, tokens);
        let mut found = Vec::with_capacity(tokens.len());
        let mut statement =
            db.prepare_cached(&format!("SELECT doc FROM vocab_{} WHERE term = ?1", corpus.id))?;
        for (token, known) in tokens.iter().zip(known) {
            found.push(match known {
                Some(count) => count,
                None => {
                    let count = statement.query_row([token], |row| row.get::<_, i64>(0));
                    count.optional()?.unwrap_or(0).cast_unsigned()
                }
            });
        }
        self.keep(corpus, tokens, &found);
        Ok(found)
    }

    fn known(&self, corpus: &Corpus, tokens: &[String]) -> Vec<Option<u64>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = kept.get(&corpus.id).filter(|counts| counts.generation == corpus.visible);
        tokens.iter().map(|token| counts?.by_token.get(token).copied()).collect()
    }

    fn keep(&self, corpus: &Corpus, tokens: &[String], found: &[u64]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.values().map(|counts| counts.by_token.len()).sum::<usize>() > MAX_KEPT {
            kept.clear();
        }
        let counts = kept.entry(corpus.id).or_default();
        // A search that began before the last run may end after it.
        if counts.generation > corpus.visible {
            return;
        }
        if counts.generation < corpus.visible {
            *counts = Counts { generation: corpus.visible, by_token: HashMap::new() };
        }
        let pairs = tokens.iter().cloned().zip(found.iter().copied());
        counts.by_token.extend(pairs);
    }
}
