//! The one thread that writes. Jobs that wait at the same time share a transaction and its sync to disk.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::Connection;
use skein_core::ports::{Lane, StoreError};

use super::{
    audit::{self, Heads},
    error::{Fault, is_busy},
    job::Job,
    queue::{Lanes, Queued},
};

/// A group takes in what waits, but no longer than this.
const GROUP_TIME: Duration = Duration::from_millis(5);

/// … and no more than this.
const GROUP_BYTES: usize = 1024 * 1024;

/// Each attempt waits for the connection's busy timeout. Only another process can make us wait.
const BEGIN_ATTEMPTS: u32 = 6;

/// Owns the writing connection.
pub(super) struct Writer {
    connection: Connection,
    lanes: Arc<Lanes>,
    /// The newest link of each org's audit chain, as committed.
    heads: Heads,
    /// Set while the newest write failed because the disk is full.
    is_full: Arc<AtomicBool>,
}

/// A job whose part of the transaction is decided.
struct Settled {
    job: Box<dyn Job>,
    result: Result<(), StoreError>,
}

/// Whether the transaction around a job still stands after it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transaction {
    Open,
    /// SQLite ended it, as it does when the disk is full.
    Lost,
}

impl Writer {
    pub(super) fn new(connection: Connection, lanes: Arc<Lanes>, is_full: Arc<AtomicBool>) -> Self {
        Self { connection, lanes, heads: Heads::default(), is_full }
    }

    /// Runs until the lanes are closed and empty.
    pub(super) fn run(mut self) {
        let abandon = AbandonOnExit(Arc::clone(&self.lanes));
        while let Some(first) = self.lanes.begin_group() {
            self.run_group(first);
        }
        drop(abandon);
    }

    fn run_group(&mut self, first: Queued) {
        let mut group = Vec::new();
        if let Err(fault) = self.begin() {
            return self.answer(Settled { job: first.job, result: Err(fault.into()) });
        }
        let mut transaction = self.gather(first, &mut group);
        if transaction == Transaction::Open {
            transaction = match self.seal_and_commit(&group) {
                Ok(()) => Transaction::Open,
                Err(fault) => self.give_up(fault, &mut group),
            };
        }
        if transaction == Transaction::Lost && group.len() > 1 {
            return group.into_iter().for_each(|settled| self.run_alone(settled.job));
        }
        for settled in group {
            self.answer(settled);
        }
    }

    /// Applies what waits: interactive jobs first, then one bulk job in every group so that none starves.
    fn gather(&mut self, first: Queued, group: &mut Vec<Settled>) -> Transaction {
        let began = Instant::now();
        let mut bytes = 0;
        let mut next = Some(first);
        let mut bulk_turn = true;
        while let Some(queued) = next {
            bytes += queued.bytes;
            let mut job = queued.job;
            let (result, transaction) = self.apply(job.as_mut());
            group.push(Settled { job, result });
            if transaction == Transaction::Lost {
                return transaction;
            }
            let has_room = bytes < GROUP_BYTES && began.elapsed() < GROUP_TIME;
            next = has_room.then(|| self.lanes.take(Lane::Interactive)).flatten();
            if next.is_none() && (bulk_turn || has_room) {
                next = self.lanes.take(Lane::Bulk);
                bulk_turn = false;
            }
        }
        Transaction::Open
    }

    /// One job in its savepoint: when it fails, the others of its group stay.
    fn apply(&self, job: &mut dyn Job) -> (Result<(), StoreError>, Transaction) {
        let result = self
            .run_statement("SAVEPOINT job")
            .and_then(|()| job.apply(&self.connection))
            .and_then(|()| self.run_statement("RELEASE job"));
        let Err(fault) = result else { return (Ok(()), Transaction::Open) };
        let undone = !self.connection.is_autocommit()
            && self.run_statement("ROLLBACK TO job").is_ok()
            && self.run_statement("RELEASE job").is_ok();
        if undone {
            return (Err(fault.into()), Transaction::Open);
        }
        self.roll_back();
        (Err(fault.into()), Transaction::Lost)
    }

    /// The audit rows of the whole group are chained at its end, so that no job waits for another's hash.
    fn seal_and_commit(&mut self, group: &[Settled]) -> Result<(), Fault> {
        let entries = group
            .iter()
            .filter(|settled| settled.result.is_ok())
            .flat_map(|settled| settled.job.audit());
        let sealed = audit::seal(&self.connection, &self.heads, entries)?;
        self.run_statement("COMMIT")?;
        self.heads.extend(sealed);
        Ok(())
    }

    /// The group as a whole could not be committed: nothing of it is there.
    fn give_up(&mut self, fault: Fault, group: &mut [Settled]) -> Transaction {
        self.roll_back();
        if let [only] = group
            && only.result.is_ok()
        {
            only.result = Err(fault.into());
        }
        Transaction::Lost
    }

    /// After a lost transaction each job has one more try, where no other can take it along.
    fn run_alone(&mut self, mut job: Box<dyn Job>) {
        let result = self.begin().map_err(StoreError::from).and_then(|()| {
            let (result, transaction) = self.apply(job.as_mut());
            match (result, transaction) {
                (Ok(()), Transaction::Open) => Ok(()),
                (result, _) => {
                    self.roll_back();
                    result
                }
            }
        });
        let mut group = [Settled { job, result }];
        if group[0].result.is_ok()
            && let Err(fault) = self.seal_and_commit(&group)
        {
            self.give_up(fault, &mut group);
        }
        let [settled] = group;
        self.answer(settled);
    }

    fn answer(&self, settled: Settled) {
        match &settled.result {
            Ok(()) => self.is_full.store(false, Ordering::Relaxed),
            Err(StoreError::Full) => self.is_full.store(true, Ordering::Relaxed),
            Err(StoreError::Conflict(_) | StoreError::Corrupt { .. }) => {}
            Err(StoreError::Unavailable(error)) => tracing::error!(%error, "a write failed"),
        }
        settled.job.answer(settled.result);
    }

    fn begin(&self) -> Result<(), Fault> {
        for _ in 1..BEGIN_ATTEMPTS {
            match self.run_statement("BEGIN IMMEDIATE") {
                Err(Fault::Sqlite(error)) if is_busy(&error) => {
                    tracing::warn!("another process holds the database");
                }
                other => return other,
            }
        }
        self.run_statement("BEGIN IMMEDIATE")
    }

    fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(Fault::Sqlite(error)) = self.run_statement("ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }

    fn run_statement(&self, sql: &str) -> Result<(), Fault> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}

/// Whatever ends the writer, nobody may wait for it afterwards.
struct AbandonOnExit(Arc<Lanes>);

impl Drop for AbandonOnExit {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
