//! Turns, through the session that reads them.

use async_trait::async_trait;
use skein_core::{
    model::{
        Answer, Asked, Failure, LogId, OrgId, PayloadId, Response, Scope, SessionId, TicketId,
        Turn, TurnId, TurnRequest, TurnState, TurnStatus, Usage, UserId,
    },
    ports::{StoreError, TurnPage, TurnReads, TurnRecord},
};

use super::{
    super::{
        PostgresStore,
        connection::{Params, Transaction},
        error::Fault,
        rows::{Columns, small},
    },
    turn_parts::Parts,
};

/// The turns that a session reads; $1 is the org, $2 the session.
macro_rules! select_turns {
    ($rest:literal) => {
        concat!(
            "SELECT t.*, u.name AS created_by_name
             FROM session_segments g
             JOIN turns t ON t.org_id = g.org_id AND t.log_id = g.log_id AND t.number >= g.first_turn
                         AND (g.last_turn IS NULL OR t.number <= g.last_turn)
             JOIN users u ON u.org_id = t.org_id AND u.id = t.created_by
             WHERE g.org_id = $1 AND g.session_id = $2 ",
            $rest
        )
    };
}

const FIND: &str = select_turns!("AND t.id = $3");
const AFTER: &str = select_turns!("AND t.number > $3 ORDER BY t.number LIMIT $4");
const BEFORE: &str = select_turns!("AND t.number < $3 ORDER BY t.number DESC LIMIT $4");

const FIND_ANYWHERE: &str = "SELECT t.*, u.name AS created_by_name
     FROM turns t JOIN users u ON u.org_id = t.org_id AND u.id = t.created_by
     WHERE t.org_id = $1 AND t.id = $2";

const PENDING: &str = "SELECT t.*, u.name AS created_by_name
     FROM turns t JOIN users u ON u.org_id = t.org_id AND u.id = t.created_by
     WHERE t.org_id = $1 AND t.status = 'pending'
         AND t.log_id = (SELECT log_id FROM sessions WHERE org_id = $1 AND id = $2)
     ORDER BY t.number";

#[async_trait]
impl TurnReads for PostgresStore {
    async fn find_turn(
        &self,
        scope: &Scope,
        session: SessionId,
        turn: TurnId,
    ) -> Result<Option<TurnRecord>, StoreError> {
        let params: Params<'_> = &[scope.org.as_uuid(), session.as_uuid(), turn.as_uuid()];
        Ok(self.turns(scope, FIND, params).await?.pop())
    }

    async fn find_turn_anywhere(
        &self,
        scope: &Scope,
        turn: TurnId,
    ) -> Result<Option<TurnRecord>, StoreError> {
        let params: Params<'_> = &[scope.org.as_uuid(), turn.as_uuid()];
        Ok(self.turns(scope, FIND_ANYWHERE, params).await?.pop())
    }

    async fn list_turns(
        &self,
        scope: &Scope,
        session: SessionId,
        page: TurnPage,
        limit: u32,
    ) -> Result<Vec<TurnRecord>, StoreError> {
        let (sql, number) = match page {
            TurnPage::After(number) => (AFTER, small(number)),
            TurnPage::Before(number) => (BEFORE, small(number)),
            TurnPage::Last => (BEFORE, i32::MAX),
        };
        let (org, session, limit) = (scope.org.as_uuid(), session.as_uuid(), i64::from(limit));
        let mut turns = self.turns(scope, sql, &[org, session, &number, &limit]).await?;
        turns.sort_by_key(|record| record.turn.number);
        Ok(turns)
    }

    async fn list_pending_turns(
        &self,
        scope: &Scope,
        session: SessionId,
    ) -> Result<Vec<Turn>, StoreError> {
        let turns = self.turns(scope, PENDING, &[scope.org.as_uuid(), session.as_uuid()]).await?;
        Ok(turns.into_iter().map(|record| record.turn).collect())
    }
}

impl PostgresStore {
    async fn turns(
        &self,
        scope: &Scope,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<TurnRecord>, Fault> {
        let mut client = self.client().await?;
        let transaction = Transaction::reading(&mut client, scope);
        let rows = transaction.query(sql, params).await?;
        let mut parts = Parts::of(&transaction, scope.org.as_uuid(), &rows).await?;
        rows.iter()
            .map(|row| {
                let row = Columns::new("turn", row);
                let mut turn = turn(&row)?;
                parts.complete(&mut turn, &row)?;
                Ok(TurnRecord { turn, created_by_name: row.get("created_by_name")? })
            })
            .collect()
    }
}

/// The turn without its parts.
fn turn(row: &Columns<'_>) -> Result<Turn, Fault> {
    Ok(Turn {
        id: row.id("id", TurnId::from_uuid)?,
        org: row.id("org_id", OrgId::from_uuid)?,
        log: row.id("log_id", LogId::from_uuid)?,
        number: row.small("number")?,
        created_by: row.id("created_by", UserId::from_uuid)?,
        ticket: row.id("ticket_id", TicketId::from_uuid)?,
        created_at: row.time("queued_at")?,
        started_at: row.opt_time("started_at")?,
        dispatched_at: row.opt_time("dispatched_at")?,
        request: request(row)?,
        plan: None,
        warnings: row.list("warnings")?,
        state: state(row)?,
    })
}

fn request(row: &Columns<'_>) -> Result<TurnRequest, Fault> {
    Ok(TurnRequest {
        mode: row.word("mode")?,
        conversation: row.id("conversation_id", SessionId::from_uuid)?,
        instruction_summary: row.get("instruction_summary")?,
        instruction: row.id("instruction_payload", PayloadId::from_uuid)?,
        model: row.get("model")?,
        temperature: row.get("temperature")?,
        asked: Asked { model: row.get("asked_model")?, temperature: row.get("asked_temperature")? },
        previous_response_id: row.get("previous_response_id")?,
        request_payload: row.opt_id("request_payload", PayloadId::from_uuid)?,
        rerun_of: row.opt_id("rerun_of", TurnId::from_uuid)?,
        workspace_id: row.get("workspace_id")?,
        repo: row.get("repo")?,
        language: row.get("language")?,
        scope_paths: row.list("rag_scope")?,
        files: Vec::new(),
        inputs: row.opt_id("inputs_payload", PayloadId::from_uuid)?,
    })
}

fn state(row: &Columns<'_>) -> Result<TurnState, Fault> {
    Ok(match row.word("status")? {
        TurnStatus::Pending => TurnState::Pending,
        TurnStatus::Completed => TurnState::Completed(Answer {
            at: row.time("finished_at")?,
            summary: row.get("answer_summary")?,
            text: row.id("answer_payload", PayloadId::from_uuid)?,
            bundle: row.opt_id("bundle_payload", PayloadId::from_uuid)?,
            response: response(row)?,
        }),
        TurnStatus::Failed => TurnState::Failed(Failure {
            at: row.time("finished_at")?,
            code: row.word("error_code")?,
            errors: row.list("errors")?,
            response: response(row)?,
        }),
    })
}

fn response(row: &Columns<'_>) -> Result<Response, Fault> {
    let counted = row.opt_counter("input_tokens")?.zip(row.opt_counter("output_tokens")?);
    Ok(Response {
        id: row.get("response_id")?,
        first_token_at: row.opt_time("first_token_at")?,
        received_at: row.opt_time("received_at")?,
        chain_expires_at: row.opt_time("chain_expires_at")?,
        payload: row.opt_id("response_payload", PayloadId::from_uuid)?,
        usage: counted.map(|(input_tokens, output_tokens)| Usage { input_tokens, output_tokens }),
    })
}
