//! The log's counters and rows, and the audit rows beside them.

use std::{collections::BTreeMap, time::SystemTime};

use skein_core::{
    model::{Event, LogId, Seq, Timestamp, TurnId, TurnStatus},
    ports::{Conflict, LastTurn, StoreError},
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    super::{
        connection::values,
        error::Fault,
        rows::{Columns, int, moment, small},
    },
    Applying,
};
use crate::codec;

/// A log's counters as this change set leaves them.
#[derive(Debug, Default)]
pub(super) struct LogState {
    /// Before this change set; events are numbered from here.
    first_seq: Seq,
    last_seq: Seq,
    last_at: Option<Timestamp>,
    turn_count: u32,
    last_turn: Option<LastTurn>,
    is_changed: bool,
}

/// The counters of the logs that were locked.
pub(super) fn states(rows: &[Row]) -> Result<BTreeMap<LogId, LogState>, Fault> {
    rows.iter()
        .map(|row| {
            let row = Columns::new("log", row);
            let last_seq = row.counter("last_seq")?;
            let state = LogState {
                first_seq: last_seq,
                last_seq,
                last_at: row.opt_time("last_at")?,
                turn_count: row.small("turn_count")?,
                last_turn: last_turn(&row)?,
                is_changed: false,
            };
            Ok((row.id("id", LogId::from_uuid)?, state))
        })
        .collect()
}

/// The newest turn at a glance, from a row of `logs`.
pub(in crate::postgres) fn last_turn(row: &Columns<'_>) -> Result<Option<LastTurn>, Fault> {
    let Some(id) = row.opt_id("last_turn_id", TurnId::from_uuid)? else { return Ok(None) };
    let status: TurnStatus = row.word("last_turn_status")?;
    Ok(Some(LastTurn { id, status, at: row.time("last_turn_at")? }))
}

impl LogState {
    /// Gives a new turn the next number.
    pub(super) fn add_turn(&mut self, id: TurnId, at: Timestamp) -> u32 {
        self.turn_count += 1;
        self.last_turn = Some(LastTurn { id, status: TurnStatus::Pending, at });
        self.is_changed = true;
        self.turn_count
    }

    /// Only the newest turn is shown.
    pub(super) fn turn_ended(&mut self, id: TurnId, status: TurnStatus, at: Timestamp) {
        if self.last_turn.is_some_and(|last| last.id == id) {
            self.last_turn = Some(LastTurn { id, status, at });
            self.is_changed = true;
        }
    }

    fn add_event(&mut self, at: Timestamp) -> Seq {
        self.last_seq += 1;
        self.last_at = Some(at);
        self.is_changed = true;
        self.last_seq
    }
}

impl<'a> Applying<'a> {
    /// A log of the caller's org, locked.
    pub(super) fn log(&mut self, log: LogId) -> Result<&mut LogState, Fault> {
        self.logs.get_mut(&log).ok_or_else(|| Conflict::Missing("log").into())
    }

    /// The `seq` that the event at this index of the change set is going to get.
    pub(super) fn seq_of(&self, event_index: usize) -> Option<Seq> {
        let events = &self.changes.events;
        let log = events.get(event_index)?.log;
        let earlier = events[..event_index].iter().filter(|event| event.log == log).count();
        Some(self.logs.get(&log)?.first_seq + earlier as Seq + 1)
    }

    /// Appends the events in one statement.
    pub(super) fn append(&mut self) -> Result<Vec<Event>, Fault> {
        let mut events = Vec::with_capacity(self.changes.events.len());
        let mut rows = EventRows::default();
        for new in &self.changes.events {
            let mut body = new.body.clone();
            let number = self.numbered.iter().find(|(turn, _)| Some(*turn) == new.turn);
            if let Some((_, number)) = number {
                body.number_turn(*number);
            }
            let seq = self.log(new.log)?.add_event(new.at);
            let event = Event { log: new.log, seq, turn: new.turn, at: new.at, body };
            rows.push(&event)?;
            events.push(event);
        }
        rows.insert(self);
        Ok(events)
    }

    /// Writes the counters back.
    pub(super) fn save_logs(&mut self) {
        let changed: Vec<_> = self
            .logs
            .iter()
            .filter(|(_, log)| log.is_changed)
            .map(|(id, log)| {
                let last = log.last_turn;
                values![
                    self.org(),
                    *id.as_uuid(),
                    int(log.last_seq),
                    log.last_at.map(moment),
                    small(log.turn_count),
                    last.map(|turn| *turn.id.as_uuid()),
                    last.map(|turn| turn.status.as_str()),
                    last.map(|turn| moment(turn.at)),
                ]
            })
            .collect();
        for values in changed {
            self.later(
                "UPDATE logs SET last_seq = $3, last_at = $4, turn_count = $5,
                        last_turn_id = $6, last_turn_status = $7, last_turn_at = $8
                 WHERE org_id = $1 AND id = $2",
                values,
            );
        }
    }

    /// The rows are sealed into their org's chain later: doing it here would put all writers in one line.
    pub(super) fn audit(&mut self) {
        for entry in &self.changes.audit {
            // Plain JSON: the chain's hashes cover these very bytes.
            let detail = entry.detail.to_string().into_bytes();
            let (org, actor) = (self.org(), self.scope.user.as_uuid());
            let at = moment(entry.at);
            self.later(
                "INSERT INTO audit (org_id, at, actor, action, target, detail)
                 VALUES ($1, $2, $3, $4, $5, $6)",
                values![org, at, actor, entry.action, &entry.target, detail],
            );
        }
    }
}

/// The columns of the events to be appended.
#[derive(Default)]
struct EventRows {
    logs: Vec<Uuid>,
    seqs: Vec<i64>,
    turns: Vec<Option<Uuid>>,
    types: Vec<&'static str>,
    times: Vec<SystemTime>,
    messages: Vec<Option<Uuid>>,
    roles: Vec<Option<&'static str>>,
    data: Vec<Vec<u8>>,
}

impl EventRows {
    fn push(&mut self, event: &Event) -> Result<(), Fault> {
        let data = event
            .body
            .encode()
            .map_err(|error| StoreError::Corrupt { entity: "event", reason: error.to_string() })?;
        let closes = event.body.closes_message();
        self.logs.push(*event.log.as_uuid());
        self.seqs.push(int(event.seq));
        self.turns.push(event.turn.map(|turn| *turn.as_uuid()));
        self.types.push(event.body.name());
        self.times.push(moment(event.at));
        self.messages.push(closes.map(|(message, _)| *message.as_uuid()));
        self.roles.push(closes.map(|(_, role)| role.as_str()));
        self.data.push(codec::pack(&data));
        Ok(())
    }

    fn insert(self, applying: &mut Applying<'_>) {
        if self.logs.is_empty() {
            return;
        }
        applying.later(
            "INSERT INTO events (org_id, log_id, seq, turn_id, type, at, message_id, role, data)
             SELECT $1, new.* FROM unnest($2::uuid[], $3::bigint[], $4::uuid[], $5::text[],
                 $6::timestamptz[], $7::uuid[], $8::text[], $9::bytea[]) AS new",
            values![
                applying.org(),
                self.logs,
                self.seqs,
                self.turns,
                self.types,
                self.times,
                self.messages,
                self.roles,
                self.data,
            ],
        );
    }
}
