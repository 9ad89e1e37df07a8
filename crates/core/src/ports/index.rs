//! Where passages are kept, so that they can be found.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::Retriever;
use crate::model::{DocumentId, LogId, RepoId, Scope, Timestamp, named_enum};

/// Keeps the passages of repositories and of documents. Everything in it is derived and can be made again.
///
/// Searches see a repository as it was before a run or as it is after it, never in between. A run that was cut off
/// leaves what searches see as it was; the next run goes on from what is there, and ends as if it had begun afresh.
#[async_trait]
pub trait PassageIndex: Retriever {
    /// Brings a repository's passages up to date. Costs what has changed, not what is there.
    async fn index_repo(
        &self,
        scope: &Scope,
        job: IndexJob,
        watch: &dyn IndexWatch,
        cancel: CancellationToken,
    ) -> Result<IndexStatus, IndexError>;

    /// Where a repository stands. `None` when it was never indexed.
    async fn index_status(
        &self,
        scope: &Scope,
        repo: RepoId,
    ) -> Result<Option<IndexStatus>, IndexError>;

    async fn remove_repo(&self, scope: &Scope, repo: RepoId) -> Result<(), IndexError>;

    /// Adds a document's passages, or replaces them; returns how many there are.
    async fn add_document(&self, scope: &Scope, document: IndexDocument)
    -> Result<u32, IndexError>;

    /// How many passages there are of each of these documents. Those that it does not have are left out.
    async fn document_passages(
        &self,
        scope: &Scope,
        documents: &[DocumentId],
    ) -> Result<HashMap<DocumentId, u32>, IndexError>;

    /// Removes the documents of a log.
    async fn remove_documents(&self, scope: &Scope, log: LogId) -> Result<(), IndexError>;

    /// Does what runs leave for later, such as vectors from an endpoint that is slow or was away. Searches and runs go on
    /// meanwhile. Returns when nothing is left, or when what is left cannot be done now.
    async fn catch_up(&self, cancel: CancellationToken) -> Result<(), IndexError>;
}

/// A repository to be indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexJob {
    pub repo: RepoId,
    /// The work tree, as it was resolved.
    pub root: String,
    /// That commit's tree; without it the work tree as it is.
    pub commit: Option<String>,
    /// When the run began.
    pub at: Timestamp,
}

/// A text to be found in one session and its forks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexDocument {
    pub id: DocumentId,
    pub log: LogId,
    pub name: String,
    pub media_type: String,
    pub text: String,
}

/// Is told how a run goes, a few times a second at most.
pub trait IndexWatch: Send + Sync {
    fn progress(&self, progress: IndexProgress);
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexProgress {
    /// Files that were looked at, whether or not they had changed.
    pub files_done: u64,
    /// None until there is something to go by; exact when the tree has been walked, expected before.
    pub files_total: Option<u64>,
    pub chunks: u64,
}

/// What an index holds of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexStatus {
    pub state: IndexState,
    /// The commit that was indexed, or that the indexed work tree is on.
    pub commit: Option<String>,
    pub files: u64,
    pub chunks: u64,
    /// Files that were left out, by reason.
    pub skipped: BTreeMap<String, u64>,
    pub updated_at: Option<Timestamp>,
    /// Why the last run failed.
    pub error: Option<String>,
}

named_enum! {
    /// Where an index stands.
    IndexState, "index state" {
        Idle = "idle",
        Indexing = "indexing",
        Ready = "ready",
        Failed = "failed",
    }
}

/// Why a repository or document could not be indexed.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("{0} is not a Git work tree")]
    NotARepository(String),
    #[error("there is no commit {0:?} in the repository")]
    UnknownCommit(String),
    /// Another run of the same repository is going on.
    #[error("the repository is being indexed")]
    Busy,
    #[error("the run was stopped")]
    Cancelled,
    #[error("the index is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}
