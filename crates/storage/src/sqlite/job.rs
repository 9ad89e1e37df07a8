//! Units of work for the writer.

use rusqlite::Connection;
use skein_core::{
    model::{Event, OrgId, UserId},
    ports::{Committed, StoreError},
};
use tokio::sync::oneshot;

use super::{
    apply::{self, Applied},
    error::Fault,
    prepared::{Prepared, PreparedAudit},
};

/// One piece of work: all of it or nothing.
pub(super) trait Job: Send {
    /// Writes everything. Called again, from the start, when the transaction around it was lost.
    fn apply(&mut self, connection: &Connection) -> Result<(), Fault>;

    /// What the audit log is to say about it, once it was applied.
    fn audit(&self) -> &[PreparedAudit] {
        &[]
    }

    /// Called once: after the work is durable, or when it is known that it will not be.
    fn answer(self: Box<Self>, result: Result<(), StoreError>);
}

/// A change set of one caller.
pub(super) struct ChangeJob {
    pub(super) org: OrgId,
    pub(super) user: UserId,
    pub(super) changes: Prepared,
    pub(super) applied: Applied,
    pub(super) reply: oneshot::Sender<Result<Committed, StoreError>>,
}

impl Job for ChangeJob {
    fn apply(&mut self, connection: &Connection) -> Result<(), Fault> {
        let target = apply::Target { connection, org: self.org, user: self.user };
        self.applied = apply::apply(&target, &self.changes)?;
        Ok(())
    }

    fn audit(&self) -> &[PreparedAudit] {
        &self.changes.audit
    }

    fn answer(self: Box<Self>, result: Result<(), StoreError>) {
        let Self { changes, applied, reply, .. } = *self;
        // A caller that stopped waiting does not want to know.
        let _ = reply.send(result.map(|()| committed(changes, applied)));
    }
}

fn committed(changes: Prepared, applied: Applied) -> Committed {
    let events = changes.events.into_iter().zip(&applied.seqs).map(|(prepared, seq)| {
        let mut new = prepared.event;
        if let Some(number) = new.turn.and_then(|turn| applied.number_of(turn)) {
            new.body.number_turn(number);
        }
        Event { log: new.log, seq: *seq, turn: new.turn, at: new.at, body: new.body }
    });
    Committed {
        events: events.collect(),
        turn_numbers: applied.turns.iter().map(|(_, number)| *number).collect(),
    }
}

/// Work that Skein does for itself.
pub(super) struct SystemJob<T, F> {
    work: F,
    outcome: Option<T>,
    reply: oneshot::Sender<Result<Option<T>, StoreError>>,
}

impl<T, F> SystemJob<T, F> {
    pub(super) fn new(work: F, reply: oneshot::Sender<Result<Option<T>, StoreError>>) -> Self {
        Self { work, outcome: None, reply }
    }
}

impl<T: Send, F: FnMut(&Connection) -> Result<T, Fault> + Send> Job for SystemJob<T, F> {
    fn apply(&mut self, connection: &Connection) -> Result<(), Fault> {
        self.outcome = Some((self.work)(connection)?);
        Ok(())
    }

    fn answer(self: Box<Self>, result: Result<(), StoreError>) {
        let Self { outcome, reply, .. } = *self;
        let _ = reply.send(result.map(|()| outcome));
    }
}
