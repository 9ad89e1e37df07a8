//! What a session reads: its own log, and for a fork the beginning of its parent's.

use rusqlite::{Connection, params};
use skein_core::model::{OrgId, SessionId};

use super::super::{
    error::Fault,
    rows::{Columns, key},
};

/// A stretch of a log.
pub(super) struct Segment {
    pub(super) log: [u8; 16],
    pub(super) from_seq: i64,
    pub(super) to_seq: i64,
    pub(super) first_turn: i64,
    pub(super) last_turn: i64,
}

/// In the order of the session's history. Empty when the org has no such session.
pub(super) fn segments(
    connection: &Connection,
    org: OrgId,
    session: SessionId,
) -> Result<Vec<Segment>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT log_id, from_seq, to_seq, first_turn, last_turn FROM session_segments
         WHERE org_id = ?1 AND session_id = ?2 ORDER BY from_seq",
    )?;
    let mut rows = statement.query(params![key(&org), key(&session)])?;
    let mut segments = Vec::new();
    while let Some(row) = rows.next()? {
        let mut columns = Columns::new("session segment", row);
        segments.push(Segment {
            log: columns.get()?,
            from_seq: columns.get()?,
            to_seq: columns.get::<Option<i64>>()?.unwrap_or(i64::MAX),
            first_turn: columns.get()?,
            last_turn: columns.get::<Option<i64>>()?.unwrap_or(i64::MAX),
        });
    }
    Ok(segments)
}
