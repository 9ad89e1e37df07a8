//! What belongs to turns and has rows of its own: files, plans and chunks. One query each for all turns of a page.

use std::collections::HashMap;

use rusqlite::{Connection, params};
use skein_core::{
    model::{OrgId, SendPlan, TurnChunk, TurnFile, TurnId},
    ports::{StoreError, TurnRecord},
};

use super::super::{
    error::Fault,
    rows::{Columns, key, key_list},
};

/// A turn without its parts, and which of them it has.
pub(super) struct Found {
    pub(super) record: TurnRecord,
    pub(super) has_files: bool,
    pub(super) has_plan: bool,
    pub(super) has_chunks: bool,
}

/// The turns with all their parts.
pub(super) fn whole(
    connection: &Connection,
    org: OrgId,
    found: Vec<Found>,
) -> Result<Vec<TurnRecord>, Fault> {
    let mut files = rows(connection, (org, FILES), with(&found, |turn| turn.has_files), file)?;
    let mut plans = rows(connection, (org, PLANS), with(&found, |turn| turn.has_plan), plan)?;
    let mut chunks = rows(connection, (org, CHUNKS), with(&found, |turn| turn.has_chunks), chunk)?;
    found
        .into_iter()
        .map(|Found { mut record, has_plan, .. }| {
            let turn = &mut record.turn;
            turn.request.files = files.remove(&turn.id).unwrap_or_default();
            if has_plan {
                let mut plan =
                    plans.remove(&turn.id).and_then(|mut plans| plans.pop()).ok_or_else(lost)?;
                plan.chunks = chunks.remove(&turn.id).unwrap_or_default();
                turn.plan = Some(Box::new(plan));
            }
            Ok(record)
        })
        .collect()
}

const FILES: &str = "SELECT turn_id, path, sha256, size, touched, open, named, fate, reason
     FROM turn_files
     WHERE org_id = ?1 AND turn_id IN (SELECT unhex(value) FROM json_each(?2)) ORDER BY ord";

const PLANS: &str = "SELECT turn_id, data FROM turn_plans
     WHERE org_id = ?1 AND turn_id IN (SELECT unhex(value) FROM json_each(?2))";

const CHUNKS: &str =
    "SELECT turn_id, chunk_id, path, start_line, end_line, sha256, size, score, fate,
        reason
     FROM turn_chunks
     WHERE org_id = ?1 AND turn_id IN (SELECT unhex(value) FROM json_each(?2)) ORDER BY ord";

fn with(found: &[Found], has: fn(&Found) -> bool) -> Vec<TurnId> {
    found.iter().filter(|turn| has(turn)).map(|turn| turn.record.turn.id).collect()
}

/// By turn, each in the order of the query. Nothing is asked about no turns.
fn rows<T>(
    connection: &Connection,
    (org, sql): (OrgId, &str),
    turns: Vec<TurnId>,
    read: fn(&mut Columns<'_, '_>) -> Result<T, Fault>,
) -> Result<HashMap<TurnId, Vec<T>>, Fault> {
    let mut by_turn: HashMap<TurnId, Vec<T>> = HashMap::new();
    if turns.is_empty() {
        return Ok(by_turn);
    }
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![key(&org), key_list(&turns)])?;
    while let Some(row) = rows.next()? {
        let mut columns = Columns::new("part of a turn", row);
        by_turn.entry(columns.id()?).or_default().push(read(&mut columns)?);
    }
    Ok(by_turn)
}

fn file(columns: &mut Columns<'_, '_>) -> Result<TurnFile, Fault> {
    Ok(TurnFile {
        path: columns.get()?,
        sha256: columns.hash()?,
        size_bytes: columns.counter()?,
        is_touched: columns.get()?,
        is_open: columns.get()?,
        is_named: columns.get()?,
        fate: columns.word()?,
        reason: columns.get()?,
    })
}

fn plan(columns: &mut Columns<'_, '_>) -> Result<SendPlan, Fault> {
    columns.json()
}

fn chunk(columns: &mut Columns<'_, '_>) -> Result<TurnChunk, Fault> {
    Ok(TurnChunk {
        chunk_id: columns.get()?,
        path: columns.get()?,
        start_line: columns.get()?,
        end_line: columns.get()?,
        sha256: columns.hash()?,
        size_bytes: columns.counter()?,
        score: columns.get()?,
        fate: columns.word()?,
        reason: columns.get()?,
    })
}

fn lost() -> Fault {
    StoreError::Corrupt { entity: "turn", reason: "its plan is missing".to_owned() }.into()
}
