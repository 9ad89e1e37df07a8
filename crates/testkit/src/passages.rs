//! A retriever that finds what a test wrote down.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use skein_core::{
    model::{Scope, Sha256Hash},
    ports::{Chunk, Found, Origin, RetrievalQuery, RetrieveError, Retriever},
};

/// Finds one list per search, in the order they were given; nothing when none is left.
#[derive(Debug, Default)]
pub struct ScriptedRetriever {
    found: Mutex<VecDeque<Option<Vec<Chunk>>>>,
    queries: Mutex<Vec<RetrievalQuery>>,
}

impl ScriptedRetriever {
    /// What the search after those that have an answer finds.
    pub fn find_next(&self, chunks: impl Into<Vec<Chunk>>) {
        lock(&self.found).push_back(Some(chunks.into()));
    }

    /// The search after those that have an answer fails.
    pub fn fail_next(&self) {
        lock(&self.found).push_back(None);
    }

    /// What was looked for so far.
    pub fn queries(&self) -> Vec<RetrievalQuery> {
        lock(&self.queries).clone()
    }
}

#[async_trait]
impl Retriever for ScriptedRetriever {
    async fn search(&self, _: &Scope, query: &RetrievalQuery) -> Result<Found, RetrieveError> {
        lock(&self.queries).push(query.clone());
        match lock(&self.found).pop_front() {
            Some(Some(chunks)) => Ok(chunks.into()),
            Some(None) => Err(RetrieveError::Unavailable("the index is away".into())),
            None => Ok(Found::default()),
        }
    }
}

/// A passage of a file that was indexed with `file` as its content.
pub fn passage(id: &str, path: &str, text: &str, file: &str) -> Chunk {
    Chunk {
        id: id.to_owned(),
        path: path.to_owned(),
        start_line: 1,
        end_line: 3,
        language: Some("rust".to_owned()),
        symbol: None,
        sha256: Sha256Hash::of(text.as_bytes()),
        file_sha256: Some(Sha256Hash::of(file.as_bytes())),
        origin: Origin::Commit,
        text: text.to_owned(),
        score: 1.0,
        lexical: 1.0,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
