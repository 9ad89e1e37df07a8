//! The embedded engine: one SQLite file, one writer, a few readers.
//!
//! A change set goes `commit` → [`prepared`] (encode, pack; on the caller's side) → [`queue`] → [`writer`]
//! (group, savepoint, COMMIT) → [`apply`] (rows). Reads go `reads` → [`readers`].

mod apply;
mod audit;
mod checkpointer;
mod connection;
mod error;
mod job;
pub mod migrate;
mod prepared;
mod queue;
mod readers;
mod reads;
mod rows;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use async_trait::async_trait;
use rusqlite::Connection;
use skein_core::{
    model::Scope,
    ports::{ChangeSet, Clock, Committed, Lane, Store, StoreError},
};
use tokio::sync::oneshot;

use self::{
    apply::Applied,
    checkpointer::WalSignal,
    error::Fault,
    job::{ChangeJob, SystemJob},
    prepared::Prepared,
    queue::{Closed, Lanes},
    readers::Readers,
    writer::Writer,
};
use crate::migrations::MigrateError;

/// The principal that stands for everyone in an org.
const EVERYONE: [u8; 16] = [0; 16];

/// How much the engine may use.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// Reads that run at the same time.
    pub readers: usize,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { readers: 4 }
    }
}

/// Why a file cannot be opened as a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Schema(#[from] MigrateError),
    #[error("the database file cannot be opened")]
    Sqlite(#[from] rusqlite::Error),
    #[error("the store's threads cannot be started")]
    Threads(#[from] std::io::Error),
}

/// A store in one SQLite file. Nothing else may write to the file meanwhile.
pub struct SqliteStore {
    lanes: Arc<Lanes>,
    readers: Readers,
    wal: Arc<WalSignal>,
    clock: Arc<dyn Clock>,
    is_full: Arc<AtomicBool>,
    /// The writer and the checkpointer, until the store is closed.
    threads: Mutex<Option<[JoinHandle<()>; 2]>>,
}

impl SqliteStore {
    /// Opens a file whose schema is exactly the one this program was written for.
    pub fn open(
        path: &Path,
        options: SqliteOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        let connection = connection::open_writer(path)?;
        Self::start(path, options, clock, connection)
    }

    /// Brings the schema up to date first; makes the file if there is none.
    pub fn migrate_and_open(
        path: &Path,
        options: SqliteOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        let mut connection = connection::open_writer(path)?;
        migrate::up_on(&mut connection, migrate::MIGRATIONS, clock.as_ref())?;
        Self::start(path, options, clock, connection)
    }

    fn start(
        path: &Path,
        options: SqliteOptions,
        clock: Arc<dyn Clock>,
        mut connection: Connection,
    ) -> Result<Self, OpenError> {
        migrate::verify_current(&connection)?;
        let (lanes, wal) = (Arc::new(Lanes::new()), Arc::new(WalSignal::new()));
        checkpointer::watch(&mut connection, Arc::clone(&wal))?;
        let copier = connection::open_checkpointer(path)?;
        let readers = Readers::start(path, options.readers.max(1))?;
        let is_full = Arc::new(AtomicBool::new(false));

        let writer = Writer::new(connection, Arc::clone(&lanes), Arc::clone(&is_full));
        let writer = spawn("skein-write", move || writer.run())?;
        let (signal, held) = (Arc::clone(&wal), Arc::clone(&lanes));
        let copier = spawn("skein-checkpoint", move || checkpointer::run(&copier, &signal, &held))?;
        let threads = Mutex::new(Some([writer, copier]));
        Ok(Self { lanes, readers, wal, clock, is_full, threads })
    }

    /// Finishes what is queued, empties the write-ahead log and ends all threads. Blocks; later calls do nothing.
    pub fn close(&self) {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some([writer, copier]) = threads else { return };
        self.lanes.close();
        let _ = writer.join();
        self.readers.close();
        self.wal.stop();
        let _ = copier.join();
    }

    /// Runs work of Skein's own on the writer.
    async fn write<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnMut(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.lanes.push(lane, Box::new(SystemJob::new(work, reply)), 0).await?;
        let outcome = answer.await.map_err(|_| Closed)??;
        Ok(outcome.ok_or(Closed)?)
    }

    fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.close();
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn commit(&self, scope: &Scope, changes: ChangeSet) -> Result<Committed, StoreError> {
        let lane = changes.lane;
        let changes = Prepared::new(scope, changes, self.clock.now())?;
        if changes.is_empty() {
            return Ok(Committed::default());
        }
        let (reply, answer) = oneshot::channel();
        let bytes = changes.bytes;
        let job = ChangeJob {
            org: scope.org,
            user: scope.user,
            changes,
            applied: Applied::default(),
            reply,
        };
        self.lanes.push(lane, Box::new(job), bytes).await?;
        answer.await.map_err(|_| Closed)?
    }
}

fn spawn(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, std::io::Error> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work)
}
