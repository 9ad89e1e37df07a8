//! What turns give to their agents.

use rusqlite::params;
use skein_core::{
    model::{Turn, TurnChunk, TurnFile, TurnId},
    ports::Conflict,
};

use super::{
    super::{
        error::Fault,
        rows::{int, key, opt_key, pack_list},
    },
    Target,
    expect::turn_progress,
    must_change,
};

/// The rows of a plan that is made anew.
const FORGET: [&str; 2] = [
    "DELETE FROM turn_plans WHERE org_id = ?1 AND turn_id = ?2",
    "DELETE FROM turn_chunks WHERE org_id = ?1 AND turn_id = ?2",
];

/// The columns of a turn that follow from its plan.
pub(super) struct Counts {
    pub(super) chunks: i64,
    pub(super) bytes_sent: Option<i64>,
    pub(super) bytes_saved: Option<i64>,
}

impl Counts {
    pub(super) fn of(turn: &Turn) -> Self {
        let plan = turn.plan.as_deref();
        Self {
            chunks: plan.map_or(0, |plan| int(plan.chunks.len() as u64)),
            bytes_sent: plan.map(|plan| int(plan.sent.bytes)),
            bytes_saved: plan.map(|plan| int(plan.saved.bytes)),
        }
    }
}

/// Writes the plan of a turn that is still pending, over the one that it had.
pub(super) fn replace(target: &Target<'_>, turn: &Turn, packed: &[u8]) -> Result<(), Fault> {
    update(target, turn)?;
    for file in &turn.request.files {
        decide(target, turn.id, file)?;
    }
    for statement in FORGET {
        let keys = params![key(&target.org), key(&turn.id)];
        target.connection.prepare_cached(statement)?.execute(keys)?;
    }
    insert(target, turn, packed)
}

/// The plan, if the turn has one, as it was packed before.
pub(super) fn insert(target: &Target<'_>, turn: &Turn, packed: &[u8]) -> Result<(), Fault> {
    let Some(plan) = &turn.plan else { return Ok(()) };
    target
        .connection
        .prepare_cached("INSERT INTO turn_plans (org_id, turn_id, data) VALUES (?1, ?2, ?3)")?
        .execute(params![key(&target.org), key(&turn.id), packed])?;
    for (ord, chunk) in (0_u32..).zip(&plan.chunks) {
        insert_chunk(target, turn.id, ord, chunk)?;
    }
    Ok(())
}

fn update(target: &Target<'_>, turn: &Turn) -> Result<(), Fault> {
    let (request, counts) = (&turn.request, Counts::of(turn));
    let rows = target
        .connection
        .prepare_cached(
            "UPDATE turns SET
                 model = ?3, temperature = ?4, previous_response_id = ?5, request_payload = ?6,
                 warnings = ?7, chunk_count = ?8, bytes_sent = ?9, bytes_saved = ?10
             WHERE org_id = ?1 AND id = ?2 AND status = 'pending'",
        )?
        .execute(params![
            key(&target.org),
            key(&turn.id),
            request.model,
            request.temperature,
            request.previous_response_id,
            opt_key(&request.request_payload),
            pack_list("turn", &turn.warnings)?,
            counts.chunks,
            counts.bytes_sent,
            counts.bytes_saved,
        ])?;
    if rows == 0 {
        turn_progress(target, turn.id)?;
        return Err(Conflict::TurnFinished(turn.id).into());
    }
    Ok(())
}

fn decide(target: &Target<'_>, turn: TurnId, file: &TurnFile) -> Result<(), Fault> {
    let rows = target
        .connection
        .prepare_cached(
            "UPDATE turn_files SET fate = ?4, reason = ?5
             WHERE org_id = ?1 AND turn_id = ?2 AND path = ?3",
        )?
        .execute(params![
            key(&target.org),
            key(&turn),
            file.path,
            file.fate.as_str(),
            file.reason,
        ])?;
    must_change(rows, "turn file")
}

fn insert_chunk(
    target: &Target<'_>,
    turn: TurnId,
    ord: u32,
    chunk: &TurnChunk,
) -> Result<(), Fault> {
    target
        .connection
        .prepare_cached(
            "INSERT INTO turn_chunks (org_id, turn_id, ord, chunk_id, path, start_line, end_line,
                 sha256, size, score, fate, reason)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            key(&target.org),
            key(&turn),
            ord,
            chunk.chunk_id,
            chunk.path,
            chunk.start_line,
            chunk.end_line,
            chunk.sha256.as_bytes(),
            int(chunk.size_bytes),
            chunk.score,
            chunk.fate.as_str(),
            chunk.reason,
        ])?;
    Ok(())
}
