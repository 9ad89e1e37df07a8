//! The log, through the session that reads it.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use skein_core::{
    model::{Event, EventBody, Scope, Seq, SessionId},
    ports::{EventLimit, EventReads, MessagePage, MessageRange, StoreError},
};

use super::{
    super::{
        SqliteStore,
        error::Fault,
        rows::{Columns, int},
    },
    segments::{Segment, segments},
};

#[async_trait]
impl EventReads for SqliteStore {
    async fn list_events(
        &self,
        scope: &Scope,
        session: SessionId,
        after: Seq,
        limit: EventLimit,
    ) -> Result<Vec<Event>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let mut events = Vec::new();
                let mut room = Room { events: limit.events, bytes: limit.bytes };
                for segment in segments(connection, org, session)? {
                    if room.is_used_up() {
                        break;
                    }
                    read_segment(connection, &segment, after, &mut room, &mut events)?;
                }
                Ok(events)
            })
            .await
    }

    async fn list_message_events(
        &self,
        scope: &Scope,
        session: SessionId,
        range: MessageRange,
        page: MessagePage,
    ) -> Result<Vec<Event>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let mut segments = segments(connection, org, session)?;
                let (MessagePage::First(limit) | MessagePage::Last(limit)) = page;
                if matches!(page, MessagePage::Last(_)) {
                    segments.reverse();
                }
                let mut events = Vec::new();
                for segment in segments {
                    let left = (limit as usize).saturating_sub(events.len());
                    if left > 0 {
                        read_messages(connection, &segment, &range, (page, left), &mut events)?;
                    }
                }
                if matches!(page, MessagePage::Last(_)) {
                    events.reverse();
                }
                Ok(events)
            })
            .await
    }
}

/// What a read may still take.
struct Room {
    events: u32,
    bytes: usize,
}

impl Room {
    fn is_used_up(&self) -> bool {
        self.events == 0 || self.bytes == 0
    }

    fn take(&mut self, bytes: usize) {
        self.events = self.events.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

fn read_segment(
    connection: &Connection,
    segment: &Segment,
    after: Seq,
    room: &mut Room,
    events: &mut Vec<Event>,
) -> Result<(), Fault> {
    let from = segment.from_seq.max(int(after).saturating_add(1));
    let mut statement = connection.prepare_cached(
        "SELECT log_id, seq, turn_id, at, type, data FROM events
         WHERE log_id = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq LIMIT ?4",
    )?;
    let mut rows = statement.query(params![segment.log, from, segment.to_seq, room.events])?;
    while !room.is_used_up()
        && let Some(row) = rows.next()?
    {
        let (event, bytes) = event(row)?;
        room.take(bytes.max(1));
        events.push(event);
    }
    Ok(())
}

const FIRST: &str = "SELECT log_id, seq, turn_id, at, type, data FROM events
    WHERE log_id = ?1 AND role IS NOT NULL AND seq BETWEEN ?2 AND ?3 ORDER BY seq LIMIT ?4";

const LAST: &str = "SELECT log_id, seq, turn_id, at, type, data FROM events
    WHERE log_id = ?1 AND role IS NOT NULL AND seq BETWEEN ?2 AND ?3 ORDER BY seq DESC LIMIT ?4";

/// The index over time finds the rows; only those of the page are then read.
const FIRST_SINCE: &str = "SELECT log_id, seq, turn_id, at, type, data FROM events
    WHERE log_id = ?1 AND seq IN (
        SELECT seq FROM events INDEXED BY events_closing_messages_by_time
        WHERE log_id = ?1 AND role IS NOT NULL AND at > ?5 AND seq BETWEEN ?2 AND ?3
        ORDER BY seq LIMIT ?4)
    ORDER BY seq";

const LAST_SINCE: &str = "SELECT log_id, seq, turn_id, at, type, data FROM events
    WHERE log_id = ?1 AND seq IN (
        SELECT seq FROM events INDEXED BY events_closing_messages_by_time
        WHERE log_id = ?1 AND role IS NOT NULL AND at > ?5 AND seq BETWEEN ?2 AND ?3
        ORDER BY seq DESC LIMIT ?4)
    ORDER BY seq DESC";

/// In the direction of the page.
fn read_messages(
    connection: &Connection,
    segment: &Segment,
    range: &MessageRange,
    (page, limit): (MessagePage, usize),
    events: &mut Vec<Event>,
) -> Result<(), Fault> {
    let from = segment.from_seq.max(int(range.after).saturating_add(1));
    let to = range.before.map_or(segment.to_seq, |before| segment.to_seq.min(int(before) - 1));
    let limit = int(limit as u64);
    let sql = match (page, range.since) {
        (MessagePage::First(_), None) => FIRST,
        (MessagePage::Last(_), None) => LAST,
        (MessagePage::First(_), Some(_)) => FIRST_SINCE,
        (MessagePage::Last(_), Some(_)) => LAST_SINCE,
    };
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = match range.since {
        None => statement.query(params![segment.log, from, to, limit])?,
        Some(at) => statement.query(params![segment.log, from, to, limit, at.as_millis()])?,
    };
    while let Some(row) = rows.next()? {
        events.push(event(row)?.0);
    }
    Ok(())
}

/// The event and the size of its data.
fn event(row: &Row<'_>) -> Result<(Event, usize), Fault> {
    let mut columns = Columns::new("event", row);
    let (log, seq, turn) = (columns.id()?, columns.counter()?, columns.opt_id()?);
    let at = columns.time()?;
    let name: String = columns.get()?;
    let data = columns.bytes()?;
    let body = EventBody::decode(&name, &data).map_err(|error| columns.corrupt(error))?;
    Ok((Event { log, seq, turn, at, body }, data.len()))
}
