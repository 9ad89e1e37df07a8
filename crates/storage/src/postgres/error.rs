//! What PostgreSQL says, in the words of the store port.

use deadpool_postgres::PoolError;
use skein_core::ports::{Conflict, StoreError};
use tokio_postgres::error::{DbError, SqlState};

/// A failure inside the engine, before it is known what the caller is to be told.
#[derive(Debug)]
pub(super) enum Fault {
    Store(StoreError),
    Postgres(tokio_postgres::Error),
    Pool(PoolError),
}

impl Fault {
    /// Nothing was written, and the same change set may succeed at once.
    pub(super) fn may_be_repeated(&self) -> bool {
        let code = match self {
            Self::Postgres(error) => error.code(),
            Self::Store(_) | Self::Pool(_) => None,
        };
        code == Some(&SqlState::T_R_DEADLOCK_DETECTED)
            || code == Some(&SqlState::T_R_SERIALIZATION_FAILURE)
    }

    /// The connection is gone, as it is when the server restarts. Another one may work.
    pub(super) fn is_broken_connection(&self) -> bool {
        match self {
            Self::Postgres(error) => match error.code() {
                None => error.is_closed() || is_io(error),
                Some(code) => {
                    // Class 08 is about connections, class 57P about a server that stops or starts.
                    code.code().starts_with("08") || code.code().starts_with("57P")
                }
            },
            Self::Pool(_) | Self::Store(_) => false,
        }
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

impl From<PoolError> for Fault {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Conflict> for Fault {
    fn from(conflict: Conflict) -> Self {
        Self::Store(conflict.into())
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Store(error) => error,
            Fault::Pool(error) => Self::Unavailable(Box::new(error)),
            Fault::Postgres(error) => match error.as_db_error().and_then(told) {
                Some(told) => told,
                None => Self::Unavailable(Box::new(error)),
            },
        }
    }
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    let source = std::error::Error::source(error);
    source.is_some_and(|source| source.is::<std::io::Error>())
}

/// What a caller can do something about.
fn told(error: &DbError) -> Option<StoreError> {
    let constraint = error.constraint().unwrap_or_default();
    if *error.code() == SqlState::UNIQUE_VIOLATION {
        return Some(taken(constraint).into());
    }
    if *error.code() == SqlState::FOREIGN_KEY_VIOLATION {
        return Some(Conflict::Missing(missing(constraint)).into());
    }
    (*error.code() == SqlState::DISK_FULL).then_some(StoreError::Full)
}

/// The conflict that stands for a broken unique index.
fn taken(index: &str) -> Conflict {
    match index {
        "idempotency_pkey" => Conflict::IdempotencyKeyUsed,
        "turns_running" => Conflict::TurnRunning,
        "orgs_pkey" | "orgs_by_name" => Conflict::AlreadyExists("org"),
        "users_pkey" | "users_by_name" => Conflict::AlreadyExists("user"),
        "tokens_pkey" | "tokens_hash_key" => Conflict::AlreadyExists("token"),
        "repos_pkey" | "repos_by_name" => Conflict::AlreadyExists("repository"),
        "agent_contexts_pkey" | "agent_contexts_of_org" | "agent_context_versions_pkey" => {
            Conflict::AlreadyExists("agent context")
        }
        "conversation_contexts_pkey"
        | "conversation_contexts_by_name"
        | "conversation_context_versions_pkey" => Conflict::AlreadyExists("conversation context"),
        "sessions_pkey" | "sessions_by_basket" => Conflict::AlreadyExists("session"),
        "logs_pkey" => Conflict::AlreadyExists("log"),
        "turns_pkey" => Conflict::AlreadyExists("turn"),
        "turn_files_pkey" => Conflict::AlreadyExists("file"),
        "tickets_pkey" => Conflict::AlreadyExists("ticket"),
        "payloads_pkey" => Conflict::AlreadyExists("payload"),
        "checkpoints_pkey" => Conflict::AlreadyExists("checkpoint"),
        _ => Conflict::AlreadyExists("row"),
    }
}

/// Foreign keys are named after what they need.
fn missing(constraint: &str) -> &'static str {
    let (_, needed) = constraint.split_once("_needs_").unwrap_or_default();
    match needed {
        "org" => "org",
        "user" => "user",
        "log" => "log",
        "session" => "session",
        "turn" => "turn",
        "ticket" => "ticket",
        "repository" => "repository",
        "agent" => "agent context",
        "conversation_context" => "conversation context",
        _ => "row",
    }
}
