//! What goes wrong inside, and what callers are told.

use skein_core::ports::{IndexError, RetrieveError};

use crate::{
    qdrant::QdrantError,
    walk::{GitError, WalkError},
};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Qdrant(#[from] QdrantError),
    #[error(transparent)]
    Walk(#[from] WalkError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("the run was stopped")]
    Cancelled,
    #[error("the repository is being indexed")]
    Busy,
    #[error("a thread of the index ended early")]
    Broken,
}

impl From<GitError> for Fault {
    fn from(error: GitError) -> Self {
        Self::Walk(error.into())
    }
}

impl From<Fault> for IndexError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Walk(WalkError::Git(GitError::NotARepository(root))) => {
                Self::NotARepository(root.display().to_string())
            }
            Fault::Walk(WalkError::Git(GitError::UnknownCommit(name))) => Self::UnknownCommit(name),
            Fault::Busy => Self::Busy,
            Fault::Cancelled => Self::Cancelled,
            other => Self::Unavailable(Box::new(other)),
        }
    }
}

impl From<Fault> for RetrieveError {
    fn from(fault: Fault) -> Self {
        Self::Unavailable(Box::new(fault))
    }
}

/// An error with what is behind it.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
