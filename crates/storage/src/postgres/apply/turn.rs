//! Turns: numbered by their log, started one at a time, finished once.

use skein_core::{
    model::{AccessVia, Response, SessionId, Timestamp, Turn, TurnId, TurnState},
    ports::Conflict,
};

use super::{
    super::{
        error::Fault,
        rows::{int, moment, pack_list, small},
    },
    Applying,
};

const INSERT_TURN: &str = "INSERT INTO turns (
    org_id, id, log_id, number, created_by, ticket_id, status, mode, queued_at, started_at, dispatched_at,
    conversation_id, previous_response_id, model, rerun_of, workspace_id, repo, language, rag_scope,
    instruction_payload, request_payload, file_count, warnings, instruction_summary
) VALUES ($1, $2, $3, $4, $5, $6, 'pending', $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
          $22, $23)";

const FINISH_TURN: &str = "UPDATE turns SET
    status = $3, finished_at = $4, warnings = $5, answer_summary = $6, answer_payload = $7, error_code = $8,
    errors = $9, response_id = $10, received_at = $11, chain_expires_at = $12, response_payload = $13,
    input_tokens = $14, output_tokens = $15
WHERE org_id = $1 AND id = $2";

impl Applying<'_> {
    pub(super) async fn create_turn(
        &mut self,
        session: SessionId,
        turn: &Turn,
    ) -> Result<(), Fault> {
        self.own(turn.org)?;
        let found = self
            .transaction
            .query_opt(
                "SELECT 1 FROM sessions WHERE org_id = $1 AND id = $2 AND log_id = $3",
                &[self.org(), session.as_uuid(), turn.log.as_uuid()],
            )
            .await?;
        if found.is_none() {
            return Err(Conflict::Missing("session").into());
        }
        let number = self.log(turn.log)?.add_turn(turn.id, turn.created_at);
        self.insert_turn(turn, number).await?;
        self.insert_files(turn).await?;
        let via = AccessVia::TookPart.as_str();
        self.give_access(session, *turn.created_by.as_uuid(), via).await?;
        self.numbered.push((turn.id, number));
        Ok(())
    }

    pub(super) async fn start_turn(&self, turn: TurnId, at: Timestamp) -> Result<(), Fault> {
        if self.pending_turn(turn).await?.is_started {
            return Err(Conflict::TurnStarted(turn).into());
        }
        // The agent is called right after this, so the turn is dispatched from here on.
        self.transaction
            .execute(
                "UPDATE turns SET started_at = $3, dispatched_at = $3
                 WHERE org_id = $1 AND id = $2 AND status = 'pending' AND started_at IS NULL",
                &[self.org(), turn.as_uuid(), &moment(at)],
            )
            .await?;
        Ok(())
    }

    pub(super) async fn finish_turn(&mut self, turn: &Turn) -> Result<(), Fault> {
        self.pending_turn(turn.id).await?;
        let nothing = Response::default();
        let (answer, failure, response) = match &turn.state {
            TurnState::Pending => (None, None, &nothing),
            TurnState::Completed(answer) => (Some(answer), None, &answer.response),
            TurnState::Failed(failure) => (None, Some(failure), &failure.response),
        };
        let errors = failure.map_or(&[][..], |failure| &failure.errors);
        self.transaction
            .execute(
                FINISH_TURN,
                &[
                    self.org(),
                    turn.id.as_uuid(),
                    &turn.state.status().as_str(),
                    &moment(turn.status_at()),
                    &pack_list("turn", &turn.warnings)?,
                    &answer.map(|answer| &answer.summary),
                    &answer.map(|answer| *answer.text.as_uuid()),
                    &failure.map(|failure| failure.code.as_str()),
                    &pack_list("turn", errors)?,
                    &response.id,
                    &response.received_at.map(moment),
                    &response.chain_expires_at.map(moment),
                    &response.payload.map(|payload| *payload.as_uuid()),
                    &response.usage.map(|usage| int(usage.input_tokens)),
                    &response.usage.map(|usage| int(usage.output_tokens)),
                ],
            )
            .await?;
        let (status, at) = (turn.state.status(), turn.status_at());
        // The turn's log is among the locked ones; which it is, the row says and not the caller.
        for log in self.logs.values_mut() {
            log.turn_ended(turn.id, status, at);
        }
        Ok(())
    }

    async fn insert_turn(&self, turn: &Turn, number: u32) -> Result<(), Fault> {
        let request = &turn.request;
        self.transaction
            .execute(
                INSERT_TURN,
                &[
                    self.org(),
                    turn.id.as_uuid(),
                    turn.log.as_uuid(),
                    &small(number),
                    turn.created_by.as_uuid(),
                    turn.ticket.as_uuid(),
                    &request.mode.as_str(),
                    &moment(turn.created_at),
                    &turn.started_at.map(moment),
                    &turn.dispatched_at.map(moment),
                    request.conversation.as_uuid(),
                    &request.previous_response_id,
                    &request.model,
                    &request.rerun_of.map(|turn| *turn.as_uuid()),
                    &request.workspace_id,
                    &request.repo,
                    &request.language,
                    &pack_list("turn", &request.scope_paths)?,
                    request.instruction.as_uuid(),
                    &request.request_payload.map(|payload| *payload.as_uuid()),
                    &i32::try_from(request.files.len()).unwrap_or(i32::MAX),
                    &pack_list("turn", &turn.warnings)?,
                    &request.instruction_summary,
                ],
            )
            .await?;
        Ok(())
    }

    async fn insert_files(&self, turn: &Turn) -> Result<(), Fault> {
        for (ord, file) in (0_i32..).zip(&turn.request.files) {
            self.transaction
                .execute(
                    "INSERT INTO turn_files (org_id, turn_id, ord, path, sha256, size, touched, open,
                                             named, fate, reason)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
                    &[
                        self.org(),
                        turn.id.as_uuid(),
                        &ord,
                        &file.path,
                        &file.sha256.as_bytes().as_slice(),
                        &int(file.size_bytes),
                        &file.is_touched,
                        &file.is_open,
                        &file.is_named,
                        &file.fate.as_str(),
                        &file.reason,
                    ],
                )
                .await?;
        }
        Ok(())
    }
}
