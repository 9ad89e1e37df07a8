//! Where passages of repositories and documents are found.

use async_trait::async_trait;

use crate::model::{LogId, RepoId, Scope, Sha256Hash};

/// Finds passages. The tenant filter is the scope's, never the caller's.
#[async_trait]
pub trait Retriever: Send + Sync {
    /// The best passages first, at most `limit`.
    async fn search(&self, scope: &Scope, query: &RetrievalQuery) -> Result<Found, RetrieveError>;

    /// The documents of a log may not all be in the index. Who keeps none has nothing to do.
    fn recheck_documents(&self, _scope: &Scope, _log: LogId) {}

    /// Forgets the documents of a log that is no more. Who keeps none has nothing to do.
    async fn forget_documents(&self, _scope: &Scope, _log: LogId) -> Result<(), RetrieveError> {
        Ok(())
    }
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetrievalQuery {
    /// Taken literally: it has no syntax.
    pub text: String,
    /// None looks in documents only.
    pub repo: Option<RepoId>,
    /// The logs whose documents are looked at too: a session's own, and those that it was forked from.
    pub documents: Vec<LogId>,
    /// Path patterns; empty means everywhere.
    pub paths: Vec<String>,
    pub language: Option<String>,
    /// The vector collection that an agent context names.
    pub collection: Option<String>,
    pub limit: u32,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// The best first.
    pub chunks: Vec<Chunk>,
    /// What it had to do without, for people.
    pub notes: Vec<String>,
}

impl From<Vec<Chunk>> for Found {
    fn from(chunks: Vec<Chunk>) -> Self {
        Self { chunks, notes: Vec::new() }
    }
}

/// A passage of an indexed file or document.
#[derive(Debug, Clone, PartialEq)]
pub struct Chunk {
    pub id: String,
    pub path: String,
    pub start_line: u32,
    pub end_line: u32,
    pub language: Option<String>,
    /// What the passage defines, e.g. a function's name.
    pub symbol: Option<String>,
    /// Of the passage.
    pub sha256: Sha256Hash,
    /// Of the whole file as it was indexed.
    pub file_sha256: Option<Sha256Hash>,
    pub origin: Origin,
    pub text: String,
    /// Higher is better, within one search; what a search goes by decides the scale.
    pub score: f64,
    /// How well its words match those that were looked for: 0 when none does, about 1 when all do, more for a
    /// definition. On this scale whatever else the search went by.
    pub lexical: f64,
}

/// What a passage was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A work tree, as it was when it was indexed.
    WorkTree,
    /// A commit; work trees may well differ from it.
    Commit,
    /// A document of a session.
    Document,
}

/// Why nothing could be looked for.
#[derive(Debug, thiserror::Error)]
pub enum RetrieveError {
    #[error("the index is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What the index is kept in has to be made anew; the message says how.
    #[error("{0}")]
    Damaged(String),
}

/// The retriever of an installation without an index.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoIndex;

#[async_trait]
impl Retriever for NoIndex {
    async fn search(&self, _: &Scope, _: &RetrievalQuery) -> Result<Found, RetrieveError> {
        Ok(Found::default())
    }
}
