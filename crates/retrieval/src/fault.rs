//! What goes wrong inside, and what callers are told.

use skein_core::ports::{IndexError, RetrieveError};

use crate::{
    qdrant::QdrantError,
    walk::{GitError, WalkError},
};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Sqlite(rusqlite::Error),
    /// Everything in it can be made again, so the next start does that.
    #[error(
        "index.db is damaged; restart the server, which makes a new one, and run `skein index update`"
    )]
    Damaged,
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

/// Whether the file itself is wrong, rather than what was asked of it: SQLite says so, or it holds what nobody wrote.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error, rusqlite::Error::FromSqlConversionFailure(..))
        || matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        if is_damage(&error) { Self::Damaged } else { Self::Sqlite(error) }
    }
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
        match fault {
            Fault::Damaged => Self::Damaged(fault.to_string()),
            other => Self::Unavailable(Box::new(other)),
        }
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
