//! Turns, through the session that reads them.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use skein_core::{
    model::{
        Answer, Asked, Failure, OrgId, Response, Scope, SessionId, Turn, TurnId, TurnRequest,
        TurnState, TurnStatus, Usage,
    },
    ports::{StoreError, TurnPage, TurnReads, TurnRecord},
};

use super::{
    super::{
        SqliteStore,
        error::Fault,
        rows::{Columns, key},
    },
    segments::{Segment, segments},
    turn_parts::{Found, whole},
};

/// The columns that [`found`] reads, in its order.
macro_rules! select_turns {
    () => {
        "SELECT t.id, t.org_id, t.log_id, t.number, t.created_by, t.ticket_id, t.queued_at,
            t.started_at, t.dispatched_at, t.mode, t.conversation_id, t.instruction_summary,
            t.instruction_payload, t.model, t.temperature, t.asked_model, t.asked_temperature, t.previous_response_id,
            t.request_payload, t.rerun_of, t.workspace_id, t.repo, t.language, t.rag_scope,
            t.inputs_payload, t.warnings, t.status, t.finished_at, t.answer_summary,
            t.answer_payload, t.bundle_payload, t.error_code, t.errors, t.response_id,
            t.first_token_at, t.received_at, t.chain_expires_at, t.response_payload,
            t.input_tokens, t.output_tokens, t.file_count, t.chunk_count,
            t.bytes_sent IS NOT NULL, u.name
         FROM turns t JOIN users u ON u.org_id = t.org_id AND u.id = t.created_by"
    };
}

#[async_trait]
impl TurnReads for SqliteStore {
    async fn find_turn(
        &self,
        scope: &Scope,
        session: SessionId,
        turn: TurnId,
    ) -> Result<Option<TurnRecord>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let _snapshot = connection.unchecked_transaction()?;
                let Some(record) = find(connection, org, turn)? else { return Ok(None) };
                let number = i64::from(record.turn.number);
                let is_read = segments(connection, org, session)?.iter().any(|segment| {
                    segment.log == *key(&record.turn.log)
                        && (segment.first_turn..=segment.last_turn).contains(&number)
                });
                Ok(is_read.then_some(record))
            })
            .await
    }

    async fn find_turn_anywhere(
        &self,
        scope: &Scope,
        turn: TurnId,
    ) -> Result<Option<TurnRecord>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let _snapshot = connection.unchecked_transaction()?;
                find(connection, org, turn)
            })
            .await
    }

    async fn list_turns(
        &self,
        scope: &Scope,
        session: SessionId,
        page: TurnPage,
        limit: u32,
    ) -> Result<Vec<TurnRecord>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let _snapshot = connection.unchecked_transaction()?;
                let mut segments = segments(connection, org, session)?;
                let is_ascending = matches!(page, TurnPage::After(_));
                if !is_ascending {
                    segments.reverse();
                }
                let mut listed = Vec::new();
                for segment in segments {
                    let left = (limit as usize).saturating_sub(listed.len());
                    if left > 0 {
                        listed.extend(list(connection, org, &segment, (page, left))?);
                    }
                }
                if !is_ascending {
                    listed.reverse();
                }
                whole(connection, org, listed)
            })
            .await
    }

    async fn list_pending_turns(
        &self,
        scope: &Scope,
        session: SessionId,
    ) -> Result<Vec<Turn>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let _snapshot = connection.unchecked_transaction()?;
                let mut statement = connection.prepare_cached(concat!(
                    select_turns!(),
                    " WHERE t.log_id = (SELECT log_id FROM sessions WHERE org_id = ?1 AND id = ?2)
                        AND t.org_id = ?1 AND t.status = 'pending' ORDER BY t.number"
                ))?;
                let mut rows = statement.query(params![key(&org), key(&session)])?;
                let mut pending = Vec::new();
                while let Some(row) = rows.next()? {
                    pending.push(found(row)?);
                }
                let records = whole(connection, org, pending)?;
                Ok(records.into_iter().map(|record| record.turn).collect())
            })
            .await
    }
}

const ASCENDING: &str = concat!(
    select_turns!(),
    " WHERE t.log_id = ?1 AND t.org_id = ?2 AND t.number BETWEEN ?3 AND ?4
      ORDER BY t.number LIMIT ?5"
);

const DESCENDING: &str = concat!(
    select_turns!(),
    " WHERE t.log_id = ?1 AND t.org_id = ?2 AND t.number BETWEEN ?3 AND ?4
      ORDER BY t.number DESC LIMIT ?5"
);

fn find(connection: &Connection, org: OrgId, turn: TurnId) -> Result<Option<TurnRecord>, Fault> {
    let mut statement = connection
        .prepare_cached(concat!(select_turns!(), " WHERE t.org_id = ?1 AND t.id = ?2"))?;
    let mut rows = statement.query(params![key(&org), key(&turn)])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(whole(connection, org, vec![found(row)?])?.pop())
}

/// In the direction of the page.
fn list(
    connection: &Connection,
    org: OrgId,
    segment: &Segment,
    (page, limit): (TurnPage, usize),
) -> Result<Vec<Found>, Fault> {
    let (sql, first, last) = match page {
        TurnPage::After(number) => {
            (ASCENDING, segment.first_turn.max(i64::from(number) + 1), segment.last_turn)
        }
        TurnPage::Before(number) => {
            (DESCENDING, segment.first_turn, segment.last_turn.min(i64::from(number) - 1))
        }
        TurnPage::Last => (DESCENDING, segment.first_turn, segment.last_turn),
    };
    let mut statement = connection.prepare_cached(sql)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![segment.log, key(&org), first, last, limit])?;
    let mut listed = Vec::new();
    while let Some(row) = rows.next()? {
        listed.push(found(row)?);
    }
    Ok(listed)
}

fn found(row: &Row<'_>) -> Result<Found, Fault> {
    let mut columns = Columns::new("turn", row);
    let (id, org) = (columns.id()?, columns.id()?);
    let (log, number) = (columns.id()?, columns.get()?);
    let (created_by, ticket) = (columns.id()?, columns.id()?);
    let (created_at, started_at, dispatched_at) =
        (columns.time()?, columns.opt_time()?, columns.opt_time()?);
    let request = request(&mut columns)?;
    let warnings = columns.opt_json()?.unwrap_or_default();
    let state = state(&mut columns)?;
    let (file_count, chunk_count) = (columns.get::<u32>()?, columns.get::<u32>()?);
    let (has_plan, created_by_name) = (columns.get()?, columns.get()?);
    let turn = Turn {
        id,
        org,
        log,
        number,
        created_by,
        ticket,
        created_at,
        started_at,
        dispatched_at,
        request,
        plan: None,
        warnings,
        state,
    };
    Ok(Found {
        record: TurnRecord { turn, created_by_name },
        has_files: file_count > 0,
        has_plan,
        has_chunks: chunk_count > 0,
    })
}

fn request(columns: &mut Columns<'_, '_>) -> Result<TurnRequest, Fault> {
    Ok(TurnRequest {
        mode: columns.word()?,
        conversation: columns.id()?,
        instruction_summary: columns.get()?,
        instruction: columns.id()?,
        model: columns.get()?,
        temperature: columns.get()?,
        asked: Asked { model: columns.get()?, temperature: columns.get()? },
        previous_response_id: columns.get()?,
        request_payload: columns.opt_id()?,
        rerun_of: columns.opt_id()?,
        workspace_id: columns.get()?,
        repo: columns.get()?,
        language: columns.get()?,
        scope_paths: columns.opt_json()?.unwrap_or_default(),
        files: Vec::new(),
        inputs: columns.opt_id()?,
    })
}

fn state(columns: &mut Columns<'_, '_>) -> Result<TurnState, Fault> {
    let (status, at) = (columns.word::<TurnStatus>()?, columns.opt_time()?);
    let (summary, text) = (columns.get::<Option<String>>()?, columns.opt_id()?);
    let bundle = columns.opt_id()?;
    let (code, errors) = (columns.opt_word()?, columns.opt_json()?.unwrap_or_default());
    let (id, first_token_at, received_at) =
        (columns.get()?, columns.opt_time()?, columns.opt_time()?);
    let (chain_expires_at, payload) = (columns.opt_time()?, columns.opt_id()?);
    let usage = match (columns.get::<Option<i64>>()?, columns.get::<Option<i64>>()?) {
        (Some(input), Some(output)) => {
            Some(Usage { input_tokens: input.unsigned_abs(), output_tokens: output.unsigned_abs() })
        }
        _ => None,
    };
    let response = Response { id, first_token_at, received_at, chain_expires_at, payload, usage };
    match (status, at, summary, text, code) {
        (TurnStatus::Pending, ..) => Ok(TurnState::Pending),
        (TurnStatus::Completed, Some(at), Some(summary), Some(text), _) => {
            Ok(TurnState::Completed(Answer { at, summary, text, bundle, response }))
        }
        (TurnStatus::Failed, Some(at), _, _, Some(code)) => {
            Ok(TurnState::Failed(Failure { at, code, errors, response }))
        }
        (status, ..) => Err(columns.corrupt(format!("it is {status} without an outcome"))),
    }
}
