//! Turns: numbered by their log, started one at a time, finished once.

use rusqlite::{OptionalExtension, params};
use skein_core::{
    model::{
        AccessVia, LogId, Response, SessionId, Timestamp, Turn, TurnFile, TurnId, TurnState, UserId,
    },
    ports::Conflict,
};

use super::{
    super::{
        error::{Fault, OrConflict},
        rows::{Columns, int, key, opt_key, opt_millis, pack_list},
    },
    Target,
    expect::{TurnProgress, turn_progress},
    plan, usage,
};

/// The columns of the index that lets one turn of a log run at a time.
const RUNNING: &str = "turns.log_id";

/// Returns the number that the turn got. `packed` is its plan, if it has one.
pub(super) fn create(
    target: &Target<'_>,
    session: SessionId,
    turn: &Turn,
    packed: &[u8],
) -> Result<u32, Fault> {
    take_part(target, session, turn)?;
    let number: Option<u32> = target
        .connection
        .prepare_cached(
            "UPDATE logs SET turn_count = turn_count + 1, last_turn_id = ?3,
                 last_turn_status = ?4, last_turn_at = ?5
             WHERE org_id = ?1 AND id = ?2 RETURNING turn_count",
        )?
        .query_row(
            params![
                key(&target.org),
                key(&turn.log),
                key(&turn.id),
                turn.state.status().as_str(),
                turn.status_at().as_millis(),
            ],
            |row| row.get(0),
        )
        .optional()?;
    let number = number.ok_or(Conflict::Missing("log"))?;
    insert(target, turn, number)?;
    for (ord, file) in (0_u32..).zip(&turn.request.files) {
        insert_file(target, turn.id, ord, file)?;
    }
    plan::insert(target, turn, packed)?;
    Ok(number)
}

/// Whoever creates a turn may read the session from then on.
fn take_part(target: &Target<'_>, session: SessionId, turn: &Turn) -> Result<(), Fault> {
    let found: Option<([u8; 16], bool)> = target
        .connection
        .prepare_cached(
            "SELECT log_id, EXISTS (SELECT 1 FROM session_access
                 WHERE org_id = ?1 AND principal = ?3 AND session_id = ?2)
             FROM sessions WHERE org_id = ?1 AND id = ?2",
        )?
        .query_row(params![key(&target.org), key(&session), key(&turn.created_by)], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let (log, has_access) = found.ok_or(Conflict::Missing("session"))?;
    if log != *key(&turn.log) {
        return Err(Conflict::Missing("log").into());
    }
    if !has_access {
        target
            .connection
            .prepare_cached(
                "INSERT INTO session_access
                     (org_id, principal, session_id, via, state, is_public, created_at)
                 SELECT org_id, ?3, id, ?4, state, is_public, created_at
                 FROM sessions WHERE org_id = ?1 AND id = ?2",
            )?
            .execute(params![
                key(&target.org),
                key(&session),
                key(&turn.created_by),
                AccessVia::TookPart.as_str(),
            ])?;
    }
    Ok(())
}

fn insert(target: &Target<'_>, turn: &Turn, number: u32) -> Result<(), Fault> {
    let (request, counts) = (&turn.request, plan::Counts::of(turn));
    target
        .connection
        .prepare_cached(
            "INSERT INTO turns (
                 org_id, id, log_id, number, created_by, ticket_id, status, mode, queued_at,
                 started_at, dispatched_at, conversation_id, previous_response_id, model, rerun_of,
                 workspace_id, repo, language, rag_scope, instruction_payload, request_payload,
                 file_count, warnings, instruction_summary, temperature, inputs_payload,
                 chunk_count, bytes_sent, bytes_saved, asked_model, asked_temperature)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'pending', ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
                 ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30)",
        )?
        .execute(params![
            key(&target.org),
            key(&turn.id),
            key(&turn.log),
            number,
            key(&turn.created_by),
            key(&turn.ticket),
            request.mode.as_str(),
            turn.created_at.as_millis(),
            opt_millis(turn.started_at),
            opt_millis(turn.dispatched_at),
            key(&request.conversation),
            request.previous_response_id,
            request.model,
            opt_key(&request.rerun_of),
            request.workspace_id,
            request.repo,
            request.language,
            pack_list("turn", &request.scope_paths)?,
            key(&request.instruction),
            opt_key(&request.request_payload),
            int(request.files.len() as u64),
            pack_list("turn", &turn.warnings)?,
            request.instruction_summary,
            request.temperature,
            opt_key(&request.inputs),
            counts.chunks,
            counts.bytes_sent,
            counts.bytes_saved,
            request.asked.model,
            request.asked.temperature,
        ])
        .or_taken(RUNNING, Conflict::TurnRunning)
        .or_exists("turn")?;
    Ok(())
}

fn insert_file(target: &Target<'_>, turn: TurnId, ord: u32, file: &TurnFile) -> Result<(), Fault> {
    target
        .connection
        .prepare_cached(
            "INSERT INTO turn_files
                 (org_id, turn_id, ord, path, sha256, size, touched, open, named, fate, reason)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            key(&target.org),
            key(&turn),
            ord,
            file.path,
            file.sha256.as_bytes(),
            int(file.size_bytes),
            file.is_touched,
            file.is_open,
            file.is_named,
            file.fate.as_str(),
            file.reason,
        ])
        .or_exists("turn file")?;
    Ok(())
}

/// The dispatch is recorded with the start, because the agent is called as soon as this is durable.
pub(super) fn start(target: &Target<'_>, turn: TurnId, at: Timestamp) -> Result<(), Fault> {
    let rows = target
        .connection
        .prepare_cached(
            "UPDATE turns SET started_at = ?3, dispatched_at = ?3
             WHERE org_id = ?1 AND id = ?2 AND status = 'pending' AND started_at IS NULL",
        )?
        .execute(params![key(&target.org), key(&turn), at.as_millis()])
        .or_taken(RUNNING, Conflict::TurnRunning)?;
    if rows == 1 {
        return Ok(());
    }
    match turn_progress(target, turn)? {
        TurnProgress::Queued | TurnProgress::Started => Err(Conflict::TurnStarted(turn).into()),
        TurnProgress::Finished => Err(Conflict::TurnFinished(turn).into()),
    }
}

pub(super) fn note_response(
    target: &Target<'_>,
    turn: TurnId,
    response_id: &str,
    position: Option<u64>,
) -> Result<(), Fault> {
    let rows = target
        .connection
        .prepare_cached(
            "UPDATE turns SET response_id = ?3, provider_seq = ?4
             WHERE org_id = ?1 AND id = ?2 AND status = 'pending'",
        )?
        .execute(params![key(&target.org), key(&turn), response_id, position.map(int)])?;
    if rows == 0 {
        turn_progress(target, turn)?;
        return Err(Conflict::TurnFinished(turn).into());
    }
    Ok(())
}

/// The columns of an outcome.
#[derive(Default)]
struct Outcome<'a> {
    response: Option<&'a Response>,
    summary: Option<&'a str>,
    text: Option<&'a [u8; 16]>,
    bundle: Option<&'a [u8; 16]>,
    code: Option<&'static str>,
    errors: &'a [String],
}

impl<'a> Outcome<'a> {
    fn of(state: &'a TurnState) -> Self {
        match state {
            TurnState::Pending => Self::default(),
            TurnState::Completed(answer) => Self {
                response: Some(&answer.response),
                summary: Some(&answer.summary),
                text: Some(key(&answer.text)),
                bundle: opt_key(&answer.bundle),
                ..Self::default()
            },
            TurnState::Failed(failure) => Self {
                response: Some(&failure.response),
                code: Some(failure.code.as_str()),
                errors: &failure.errors,
                ..Self::default()
            },
        }
    }
}

pub(super) fn finish(target: &Target<'_>, turn: &Turn) -> Result<(), Fault> {
    let outcome = Outcome::of(&turn.state);
    let response = outcome.response.ok_or(Conflict::Missing("outcome"))?;
    let Some((log, user)) = end(target, turn, &outcome, response)? else {
        turn_progress(target, turn.id)?;
        return Err(Conflict::TurnFinished(turn.id).into());
    };
    target
        .connection
        .prepare_cached(
            "UPDATE logs SET last_turn_status = ?4, last_turn_at = ?5
             WHERE org_id = ?1 AND id = ?2 AND last_turn_id = ?3",
        )?
        .execute(params![
            key(&target.org),
            key(&log),
            key(&turn.id),
            turn.state.status().as_str(),
            turn.status_at().as_millis(),
        ])?;
    match response.usage {
        Some(used) => usage::add(target, (user, log), used, turn.status_at()),
        None => Ok(()),
    }
}

/// Returns the turn's log and creator as they are stored, or nothing if it was not pending.
fn end(
    target: &Target<'_>,
    turn: &Turn,
    outcome: &Outcome<'_>,
    response: &Response,
) -> Result<Option<(LogId, UserId)>, Fault> {
    let mut statement = target.connection.prepare_cached(
        "UPDATE turns SET
             status = ?3, finished_at = ?4, warnings = ?5, answer_summary = ?6, answer_payload = ?7,
             bundle_payload = ?8, error_code = ?9, errors = ?10, response_id = ?11,
             first_token_at = ?12, received_at = ?13, chain_expires_at = ?14, response_payload = ?15,
             input_tokens = ?16, output_tokens = ?17
         WHERE org_id = ?1 AND id = ?2 AND status = 'pending' RETURNING log_id, created_by",
    )?;
    let mut rows = statement.query(params![
        key(&target.org),
        key(&turn.id),
        turn.state.status().as_str(),
        turn.status_at().as_millis(),
        pack_list("turn", &turn.warnings)?,
        outcome.summary,
        outcome.text,
        outcome.bundle,
        outcome.code,
        pack_list("turn", outcome.errors)?,
        response.id,
        opt_millis(response.first_token_at),
        opt_millis(response.received_at),
        opt_millis(response.chain_expires_at),
        opt_key(&response.payload),
        response.usage.map(|usage| int(usage.input_tokens)),
        response.usage.map(|usage| int(usage.output_tokens)),
    ])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut columns = Columns::new("turn", row);
    Ok(Some((columns.id()?, columns.id()?)))
}
