//! Why a use case was refused or could not be carried out.

use crate::{
    model::{InvalidTransition, SessionStateName, TurnId},
    ports::{Conflict, StoreError},
};

/// One variant per thing a caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such thing, or the caller may not know that there is.
    #[error("{entity} not found")]
    NotFound { entity: &'static str },
    #[error("{action} is not allowed for this token")]
    Forbidden { action: &'static str },
    #[error("{field}: {reason}")]
    Invalid { field: &'static str, reason: String },
    #[error("{field}: {reason}")]
    InvalidFilter { field: &'static str, reason: String },
    #[error("the cursor {cursor} is not a position of this log, which ends at {last}")]
    InvalidCursor { cursor: String, last: u64 },
    #[error("the instruction is empty")]
    EmptyInstruction,
    #[error("{what} has {size}, the limit is {limit}")]
    TooLarge { what: &'static str, size: u64, limit: u64 },
    #[error("{field} names something that does not exist: {value}")]
    UnknownReference { field: &'static str, value: String },
    #[error("{path:?} is outside the workspace")]
    PathOutsideWorkspace { path: String },
    #[error("no workspace root is configured on this server, so no repository can be registered")]
    NoWorkspaceRoot,
    #[error("{path:?} is not a Git work tree")]
    NotARepository { path: String },
    #[error("the index is unavailable")]
    IndexUnavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("{entity} {name:?} exists already")]
    AlreadyExists { entity: &'static str, name: String },
    #[error("the content of {path:?} does not have the hash that was given")]
    HashMismatch { path: String },
    #[error("a turn is still pending; wait for it, cancel it, or enqueue")]
    TurnInProgress { turn: Option<TurnId> },
    #[error("turn {turn} is finished and cannot change")]
    TurnAlreadyFinished { turn: TurnId },
    #[error("turn {turn} is not finished yet")]
    TurnNotFinished { turn: TurnId },
    #[error("the session is {state} and cannot {wanted}")]
    SessionNotActive { state: SessionStateName, wanted: &'static str },
    #[error("the session is suspended; resume it first")]
    SessionSuspended,
    #[error("the session is {state}, not suspended")]
    SessionNotSuspended { state: SessionStateName },
    #[error("the session is at revision {revision}, not the one that was named")]
    PreconditionFailed { revision: u64 },
    #[error("the idempotency key belongs to another request")]
    IdempotencyKeyReused,
    #[error("the first request with this idempotency key is still running")]
    IdempotencyInProgress { turn: TurnId },
    #[error("{limit} turns are waiting in this session")]
    QueueFull { limit: u32 },
    /// As many sessions with an agent process work as may.
    #[error(
        "{limit} sessions with an agent of their own are active, which is the limit of this server"
    )]
    SessionLimit { limit: u32 },
    #[error("the question has been answered or called off")]
    PermissionSettled,
    #[error("this server is shutting down")]
    Draining,
    #[error(transparent)]
    Transition(#[from] InvalidTransition),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Error {
    /// The store did not answer. What it was asked to do may be done.
    pub(crate) fn is_unavailable(&self) -> bool {
        matches!(self, Self::Store(StoreError::Unavailable(_)))
    }

    /// Whether somebody else was faster: reloading and deciding again may succeed.
    pub(crate) fn is_lost_race(&self) -> bool {
        matches!(
            self,
            Self::Store(StoreError::Conflict(
                Conflict::SessionChanged(_)
                    | Conflict::TurnRunning
                    | Conflict::TurnFinished(_)
                    | Conflict::TurnStarted(_)
                    | Conflict::LimitReached(_)
                    | Conflict::PermissionSettled(_)
                    | Conflict::IdempotencyKeyUsed
            ))
        )
    }
}

impl From<Conflict> for Error {
    fn from(conflict: Conflict) -> Self {
        Self::Store(conflict.into())
    }
}
