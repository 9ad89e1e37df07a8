//! One thread that writes: all that waits shares a transaction and its sync to disk.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rusqlite::{Connection, wal::CheckpointMode};
use tokio::sync::oneshot;

use super::{
    rows::{Rows, Work, Written},
    store,
};

/// The product's bound on a group; its bound on bytes is never reached here.
const GROUP_TIME: Duration = Duration::from_millis(5);

/// The product's step: each time the write-ahead log has grown by this, it is copied.
const STEP_BYTES: u32 = 4 * 1024 * 1024;

struct Job {
    work: Work,
    done: oneshot::Sender<Written>,
}

/// Hands work to the writing thread, which ends when this is dropped.
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    /// Returns when the work is durable.
    pub(super) async fn write(&self, work: Work) -> anyhow::Result<Written> {
        let (done, written) = oneshot::channel();
        self.jobs.send(Job { work, done })?;
        Ok(written.await?)
    }
}

pub(super) fn start(database: &Path) -> anyhow::Result<(Writer, JoinHandle<anyhow::Result<()>>)> {
    let mut connection = store::open_writer(database)?;
    let between_groups = Arc::new(Mutex::new(()));
    let checkpointer = Checkpointer {
        connection: store::open_checkpointer(database)?,
        between_groups: Arc::clone(&between_groups),
    };
    checkpointer.start(&mut connection)?;
    let (jobs, waiting) = mpsc::channel();
    let thread = std::thread::Builder::new().name("writer".to_owned());
    let writing = thread.spawn(move || run(&connection, &waiting, &between_groups))?;
    Ok((Writer { jobs }, writing))
}

fn run(
    connection: &Connection,
    waiting: &mpsc::Receiver<Job>,
    between_groups: &Mutex<()>,
) -> anyhow::Result<()> {
    let mut rows = Rows::new()?;
    while let Ok(first) = waiting.recv() {
        let group = between_groups.lock().unwrap_or_else(PoisonError::into_inner);
        let mut settled = Vec::new();
        let began = Instant::now();
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut next = Some(first);
        while let Some(job) = next {
            let written = rows.write(connection, &job.work)?;
            settled.push((job.done, written));
            next = if began.elapsed() < GROUP_TIME { waiting.try_recv().ok() } else { None };
        }
        connection.prepare_cached("COMMIT")?.execute([])?;
        drop(group);
        for (done, written) in settled {
            // Whoever stopped waiting does not want to know.
            let _ = done.send(written);
        }
    }
    // Refused while the other thread copies: then the log is left for the next start.
    let _ = connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE);
    Ok(())
}

/// Moves the write-ahead log into the database on a thread of its own, as the product does.
struct Checkpointer {
    connection: Connection,
    between_groups: Arc<Mutex<()>>,
}

impl Checkpointer {
    fn start(self, writer: &mut Connection) -> anyhow::Result<()> {
        let page_bytes: u32 = writer.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let step_pages = STEP_BYTES / page_bytes;
        let (grown, growth) = mpsc::channel();
        let mut copied_at = 0;
        writer.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: std::ffi::c_int| {
            let pages = u32::try_from(pages).unwrap_or(0);
            if pages < copied_at {
                copied_at = 0;
            }
            if pages >= copied_at + step_pages {
                copied_at = pages;
                let _ = grown.send(());
            }
            Ok(())
        }))?;
        std::thread::Builder::new().name("checkpointer".to_owned()).spawn(move || {
            while growth.recv().is_ok() {
                self.copy();
                let held = self.between_groups.lock().unwrap_or_else(PoisonError::into_inner);
                self.copy();
                drop(held);
            }
        })?;
        Ok(())
    }

    /// One that fails is made up for by the next.
    fn copy(&self) {
        let _ = self.connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE);
    }
}
