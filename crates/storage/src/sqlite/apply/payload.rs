//! Payloads: in their row, in parts, or in the log.

use rusqlite::params;
use skein_core::{
    model::{PayloadId, Timestamp},
    ports::{Conflict, NewPayload, PayloadBody, Write},
};

use super::{
    super::{
        error::{Fault, OrConflict},
        prepared::Prepared,
        rows::{int, key},
    },
    Applied, Target,
};

/// Where the bytes of a payload are.
#[derive(Default)]
struct Location<'a> {
    kind: &'static str,
    body: Option<&'a [u8]>,
    part_count: Option<u32>,
    event_seq: Option<i64>,
}

/// Payloads whose text is in the log follow after the events, in [`point_at_events`].
pub(super) fn put(target: &Target<'_>, payload: &NewPayload, packed: &[u8]) -> Result<(), Fault> {
    let location = match payload.body {
        PayloadBody::EventText { .. } => return Ok(()),
        PayloadBody::Inline(_) => {
            Location { kind: "db", body: Some(packed), ..Location::default() }
        }
        PayloadBody::Parts { count } => {
            check_parts(target, payload.id, count)?;
            Location { kind: "parts", part_count: Some(count), ..Location::default() }
        }
    };
    insert(target, payload, &location)
}

pub(super) fn point_at_events(
    target: &Target<'_>,
    changes: &Prepared,
    applied: &Applied,
) -> Result<(), Fault> {
    for prepared in &changes.writes {
        if let Write::PutPayload(payload) = &prepared.write
            && let PayloadBody::EventText { event_index } = payload.body
        {
            let seq = applied.seqs.get(event_index).ok_or(Conflict::Missing("event"))?;
            let location =
                Location { kind: "event", event_seq: Some(int(*seq)), ..Location::default() };
            insert(target, payload, &location)?;
        }
    }
    Ok(())
}

pub(super) fn put_part(
    target: &Target<'_>,
    (payload, part): (PayloadId, u32),
    packed: &[u8],
    now: Timestamp,
) -> Result<(), Fault> {
    target
        .connection
        .prepare_cached(
            "INSERT INTO payload_parts (org_id, payload_id, part, created_at, body)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (org_id, payload_id, part) DO NOTHING",
        )?
        .execute(params![key(&target.org), key(&payload), part, now.as_millis(), packed])?;
    Ok(())
}

fn check_parts(target: &Target<'_>, payload: PayloadId, count: u32) -> Result<(), Fault> {
    let found: u32 = target
        .connection
        .prepare_cached(
            "SELECT count(*) FROM payload_parts
             WHERE org_id = ?1 AND payload_id = ?2 AND part < ?3",
        )?
        .query_row(params![key(&target.org), key(&payload), count], |row| row.get(0))?;
    if found == count { Ok(()) } else { Err(Conflict::Missing("payload part").into()) }
}

fn insert(target: &Target<'_>, payload: &NewPayload, location: &Location<'_>) -> Result<(), Fault> {
    let rows = target
        .connection
        .prepare_cached(
            "INSERT INTO payloads
                 (org_id, id, log_id, sha256, size, media_type, location, event_seq, part_count, body)
             SELECT ?1, ?2, id, ?4, ?5, ?6, ?7, ?8, ?9, ?10
             FROM logs WHERE org_id = ?1 AND id = ?3",
        )?
        .execute(params![
            key(&target.org),
            key(&payload.id),
            key(&payload.log),
            payload.sha256.as_bytes(),
            int(payload.size_bytes),
            payload.media_type,
            location.kind,
            location.event_seq,
            location.part_count,
            location.body,
        ])
        .or_exists("payload")?;
    super::must_change(rows, "log")
}
