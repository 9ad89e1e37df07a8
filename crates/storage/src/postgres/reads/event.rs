//! The log, through the session that reads it.

use async_trait::async_trait;
use skein_core::{
    model::{Event, EventBody, LogId, Scope, Seq, SessionId, TurnId},
    ports::{EventLimit, EventReads, MessagePage, MessageRange, StoreError},
};
use tokio_postgres::Row;

use super::super::{
    PostgresStore,
    connection::Transaction,
    error::Fault,
    rows::{Columns, int, moment},
};

/// The events that a session reads; $1 is the org, $2 the session.
macro_rules! select_events {
    ($rest:literal) => {
        concat!(
            "SELECT e.log_id, e.seq, e.turn_id, e.type, e.at, e.data
             FROM session_segments g
             JOIN events e ON e.org_id = g.org_id AND e.log_id = g.log_id AND e.seq >= g.from_seq
                          AND (g.to_seq IS NULL OR e.seq <= g.to_seq)
             WHERE g.org_id = $1 AND g.session_id = $2 AND e.seq > $3 ",
            $rest
        )
    };
}

/// Stored bytes are never more than read ones, so what this leaves out would be left out anyway.
const PAGE: &str = concat!(
    "SELECT * FROM (SELECT page.*, sum(octet_length(data)) OVER (ORDER BY seq) - octet_length(data) AS before FROM (",
    select_events!("ORDER BY e.seq LIMIT $4"),
    ") page) sized WHERE before < $5 ORDER BY seq"
);

const FIRST_MESSAGES: &str = select_events!(
    "AND e.role IS NOT NULL AND ($4::bigint IS NULL OR e.seq < $4) AND ($5::timestamptz IS NULL OR e.at > $5)
     ORDER BY e.seq LIMIT $6"
);
const LAST_MESSAGES: &str = select_events!(
    "AND e.role IS NOT NULL AND ($4::bigint IS NULL OR e.seq < $4) AND ($5::timestamptz IS NULL OR e.at > $5)
     ORDER BY e.seq DESC LIMIT $6"
);

#[async_trait]
impl EventReads for PostgresStore {
    async fn list_events(
        &self,
        scope: &Scope,
        session: SessionId,
        after: Seq,
        limit: EventLimit,
    ) -> Result<Vec<Event>, StoreError> {
        let mut client = self.client().await?;
        let transaction = Transaction::reading(&mut client, scope);
        let max_bytes = i64::try_from(limit.bytes).unwrap_or(i64::MAX).max(1);
        let rows = transaction
            .query(
                PAGE,
                &[
                    scope.org.as_uuid(),
                    session.as_uuid(),
                    &int(after),
                    &i64::from(limit.events),
                    &max_bytes,
                ],
            )
            .await?;

        let mut events = Vec::with_capacity(rows.len());
        let mut bytes = 0_usize;
        for row in &rows {
            let (event, size) = event(row)?;
            events.push(event);
            bytes = bytes.saturating_add(size);
            if bytes >= limit.bytes {
                break;
            }
        }
        Ok(events)
    }

    async fn list_message_events(
        &self,
        scope: &Scope,
        session: SessionId,
        range: MessageRange,
        page: MessagePage,
    ) -> Result<Vec<Event>, StoreError> {
        let (sql, limit) = match page {
            MessagePage::First(limit) => (FIRST_MESSAGES, limit),
            MessagePage::Last(limit) => (LAST_MESSAGES, limit),
        };
        let mut client = self.client().await?;
        let transaction = Transaction::reading(&mut client, scope);
        let rows = transaction
            .query(
                sql,
                &[
                    scope.org.as_uuid(),
                    session.as_uuid(),
                    &int(range.after),
                    &range.before.map(int),
                    &range.since.map(moment),
                    &i64::from(limit),
                ],
            )
            .await?;
        let read: Result<Vec<Event>, Fault> =
            rows.iter().map(|row| event(row).map(|(event, _)| event)).collect();
        let mut events = read?;
        events.sort_by_key(|event| event.seq);
        Ok(events)
    }
}

/// An event and the size of its data.
fn event(row: &Row) -> Result<(Event, usize), Fault> {
    let row = Columns::new("event", row);
    let data = row.bytes("data")?;
    let name: String = row.get("type")?;
    let event = Event {
        log: row.id("log_id", LogId::from_uuid)?,
        seq: row.counter("seq")?,
        turn: row.opt_id("turn_id", TurnId::from_uuid)?,
        at: row.time("at")?,
        body: EventBody::decode(&name, &data).map_err(|error| row.corrupt(error))?,
    };
    Ok((event, data.len()))
}
