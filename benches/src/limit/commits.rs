//! What one small commit costs here: a single event, made durable by the thread that wants it.

use std::{path::Path, time::Instant};

use rusqlite::Connection;
use uuid::Uuid;

use super::{
    rows::{Rows, Source, Work},
    store,
};
use crate::report::milliseconds;

/// A session of a store that the product has made, to commit events to.
///
/// There are no other threads: on a busy machine handing work over takes longer than the commit, and would be taken
/// for it.
pub(crate) struct Commits {
    connection: Connection,
    rows: Rows,
    session: Uuid,
    turn: Uuid,
}

impl Commits {
    pub(crate) fn open(database: &Path) -> anyhow::Result<Self> {
        let mut source = Source::new(15);
        let (session, turn) = (source.id(), source.id());
        let connection = store::open_writer(database)?;
        let mut commits = Self { connection, rows: Rows::new()?, session, turn };
        commits.commit(&Work::Open { session })?;
        commits.commit(&Work::Begin { session, turn, instruction: "commit".to_owned() })?;
        Ok(commits)
    }

    /// Commits an event with this data; gives the milliseconds from the begin of the transaction to the end of the sync.
    pub(crate) fn event(&mut self, data: String) -> anyhow::Result<f64> {
        let (session, turn) = (self.session, self.turn);
        self.commit(&Work::Deltas { session, turn, data: vec![data] })
    }

    fn commit(&mut self, work: &Work) -> anyhow::Result<f64> {
        let began = Instant::now();
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.rows.write(&self.connection, work)?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(milliseconds(began.elapsed()))
    }
}
