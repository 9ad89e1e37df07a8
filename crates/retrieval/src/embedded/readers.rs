//! Connections that read, so that no search waits for a write.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use rusqlite::Connection;

use super::schema::open_reader;

/// Connections that are kept for the next search.
const KEPT: usize = 8;

pub(super) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), idle: Mutex::default() }
    }

    pub(super) fn take(&self) -> rusqlite::Result<Reader<'_>> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = idle.map_or_else(|| open_reader(&self.path), Ok)?;
        Ok(Reader { readers: self, connection: Some(connection) })
    }
}

/// A connection that goes back when it is dropped.
pub(super) struct Reader<'a> {
    readers: &'a Readers,
    connection: Option<Connection>,
}

impl Reader<'_> {
    /// One moment of the index, for as long as `work` takes.
    pub(super) fn snapshot<T, E: From<rusqlite::Error>>(
        &mut self,
        work: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let Some(connection) = self.connection.as_mut() else {
            return Err(rusqlite::Error::InvalidQuery.into());
        };
        let transaction = connection.transaction()?;
        let outcome = work(&transaction)?;
        transaction.finish()?;
        Ok(outcome)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let mut idle = self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = self.connection.take()
            && idle.len() < KEPT
        {
            idle.push(connection);
        }
    }
}
