//! Appending to logs.

use rusqlite::{OptionalExtension, params};
use skein_core::{
    model::{LogId, Seq},
    ports::Conflict,
};

use super::{
    super::{
        error::Fault,
        prepared::{PreparedEvent, pack_event},
        rows::{int, key, opt_key},
    },
    Applied, Target,
};

/// Each log's counter moves once, by the number of its events, and so leaves no gap.
pub(super) fn append(
    target: &Target<'_>,
    events: &[PreparedEvent],
    applied: &mut Applied,
) -> Result<(), Fault> {
    let mut next: Vec<(LogId, Seq)> = Vec::new();
    for prepared in events {
        let log = prepared.event.log;
        let seq = match next.iter_mut().find(|(known, _)| *known == log) {
            Some((_, seq)) => seq,
            None => {
                next.push((log, reserve(target, log, events)?));
                let Some((_, seq)) = next.last_mut() else { continue };
                seq
            }
        };
        insert(target, prepared, *seq, applied)?;
        applied.seqs.push(*seq);
        *seq += 1;
    }
    Ok(())
}

/// The `seq` of the first of this log's events.
fn reserve(target: &Target<'_>, log: LogId, events: &[PreparedEvent]) -> Result<Seq, Fault> {
    let of_log = || events.iter().filter(|prepared| prepared.event.log == log);
    let count = of_log().count() as u64;
    let last_at = of_log().next_back().map(|prepared| prepared.event.at.as_millis());
    let last_seq: Option<i64> = target
        .connection
        .prepare_cached(
            "UPDATE logs SET last_seq = last_seq + ?3, last_at = ?4
             WHERE org_id = ?1 AND id = ?2 RETURNING last_seq",
        )?
        .query_row(params![key(&target.org), key(&log), int(count), last_at], |row| row.get(0))
        .optional()?;
    let last_seq = last_seq.ok_or(Conflict::Missing("log"))?;
    Ok(last_seq.unsigned_abs() - count + 1)
}

fn insert(
    target: &Target<'_>,
    prepared: &PreparedEvent,
    seq: Seq,
    applied: &Applied,
) -> Result<(), Fault> {
    let event = &prepared.event;
    let numbered;
    let data = match &prepared.packed {
        Some(packed) => packed,
        None => {
            let mut body = event.body.clone();
            if let Some(number) = event.turn.and_then(|turn| applied.number_of(turn)) {
                body.number_turn(number);
            }
            numbered = pack_event(&body)?;
            &numbered
        }
    };
    let message = event.body.closes_message();
    target
        .connection
        .prepare_cached(
            "INSERT INTO events (org_id, log_id, seq, turn_id, type, at, message_id, role, data)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            key(&target.org),
            key(&event.log),
            int(seq),
            opt_key(&event.turn),
            event.body.name(),
            event.at.as_millis(),
            message.as_ref().map(|(id, _)| key(id)),
            message.map(|(_, role)| role.as_str()),
            data,
        ])?;
    Ok(())
}
