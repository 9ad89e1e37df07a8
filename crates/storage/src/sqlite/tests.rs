//! What only this engine promises: groups, lost transactions, segments, migrations, the file itself.

mod groups;
mod history;
mod schema;

use std::{path::PathBuf, sync::Arc};

use rusqlite::{Connection, params_from_iter};
use skein_core::ports::{Lane, Storage, StoreError};
use skein_testkit::{StoppedClock, World};
use tempfile::TempDir;

use super::{SqliteOptions, SqliteStore};

/// A store in a directory of its own.
struct Home {
    store: Arc<SqliteStore>,
    directory: TempDir,
}

impl Home {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(StoppedClock::default());
        let path = directory.path().join("skein.db");
        let store = SqliteStore::migrate_and_open(&path, SqliteOptions::default(), clock).unwrap();
        Self { store: Arc::new(store), directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("skein.db")
    }

    async fn world(&self) -> World {
        World::new(Arc::clone(&self.store) as Arc<dyn Storage>).await
    }

    /// Runs SQL on the writer, past all ports.
    async fn execute<const N: usize>(
        &self,
        sql: &'static str,
        keys: [[u8; 16]; N],
    ) -> Result<usize, StoreError> {
        self.store
            .write(Lane::Interactive, move |connection: &Connection| {
                Ok(connection.execute(sql, params_from_iter(&keys))?)
            })
            .await
    }

    async fn number(&self, sql: &'static str) -> i64 {
        let read =
            move |connection: &Connection| Ok(connection.query_row(sql, [], |row| row.get(0))?);
        self.store.readers.read(read).await.unwrap()
    }
}
