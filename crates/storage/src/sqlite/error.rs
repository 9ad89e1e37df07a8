//! What SQLite says, in the words of the store port.

use rusqlite::{ErrorCode, ffi};
use skein_core::ports::{Conflict, StoreError};

/// A failure inside the engine, before it is known what the caller is to be told.
#[derive(Debug)]
pub(super) enum Fault {
    Store(StoreError),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
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
            Fault::Sqlite(error) if is_full(&error) => Self::Full,
            Fault::Sqlite(error) if extended_code(&error) == Some(FOREIGN_KEY) => {
                Conflict::Missing("referenced row").into()
            }
            Fault::Sqlite(error) => Self::Unavailable(Box::new(error)),
        }
    }
}

const FOREIGN_KEY: i32 = ffi::SQLITE_CONSTRAINT_FOREIGNKEY;

/// Turns broken constraints into conflicts where the statement is known.
pub(super) trait OrConflict<T> {
    /// A taken key or name means that this entity exists.
    fn or_exists(self, entity: &'static str) -> Result<T, Fault>;

    /// The conflict that stands for a broken unique index over exactly these columns.
    fn or_taken(self, columns: &str, conflict: Conflict) -> Result<T, Fault>;
}

impl<T, E: Into<Fault>> OrConflict<T> for Result<T, E> {
    fn or_exists(self, entity: &'static str) -> Result<T, Fault> {
        self.map_err(|error| match error.into() {
            Fault::Sqlite(error) if is_taken(&error) => Conflict::AlreadyExists(entity).into(),
            fault => fault,
        })
    }

    fn or_taken(self, columns: &str, conflict: Conflict) -> Result<T, Fault> {
        self.map_err(|error| match error.into() {
            Fault::Sqlite(error) if is_taken(&error) && names_columns(&error, columns) => {
                conflict.into()
            }
            fault => fault,
        })
    }
}

/// Another process holds the lock; ours never do for long.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Growing the shared index of the write-ahead log fails in its own way when the disk is full.
fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
        || extended_code(error) == Some(ffi::SQLITE_IOERR_SHMSIZE)
}

fn is_taken(error: &rusqlite::Error) -> bool {
    matches!(
        extended_code(error),
        Some(ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY)
    )
}

fn names_columns(error: &rusqlite::Error, columns: &str) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => {
            message.strip_prefix("UNIQUE constraint failed: ") == Some(columns)
        }
        _ => false,
    }
}

fn extended_code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}
