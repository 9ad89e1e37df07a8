//! Turns: numbered by their log, started one at a time, finished once.

use skein_core::{
    model::{
        AccessVia, LogId, Response, SessionId, Timestamp, Turn, TurnFile, TurnId, TurnState, UserId,
    },
    ports::Conflict,
};

use super::{
    super::{
        error::Fault,
        rows::{Columns, int, moment, pack_list, small},
    },
    Applying,
    plan::Counts,
};

const INSERT_TURN: &str = "INSERT INTO turns (
    org_id, id, log_id, number, created_by, ticket_id, status, mode, queued_at, started_at, dispatched_at,
    conversation_id, previous_response_id, model, rerun_of, workspace_id, repo, language, rag_scope,
    instruction_payload, request_payload, file_count, warnings, instruction_summary, temperature, inputs_payload,
    chunk_count, bytes_sent, bytes_saved
) VALUES ($1, $2, $3, $4, $5, $6, 'pending', $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
          $22, $23, $24, $25, $26, $27, $28)";

const INSERT_FILES: &str = "INSERT INTO turn_files
    (org_id, turn_id, ord, path, sha256, size, touched, open, named, fate, reason)
SELECT $1, $2, new.ord - 1, new.path, new.sha256, new.size, new.touched, new.open, new.named, new.fate, new.reason
FROM unnest($3::text[], $4::bytea[], $5::bigint[], $6::boolean[], $7::boolean[], $8::boolean[], $9::text[],
            $10::text[]) WITH ORDINALITY
    AS new (path, sha256, size, touched, open, named, fate, reason, ord)";

const FINISH_TURN: &str = "UPDATE turns SET
    status = $3, finished_at = $4, warnings = $5, answer_summary = $6, answer_payload = $7, error_code = $8,
    errors = $9, response_id = $10, received_at = $11, chain_expires_at = $12, response_payload = $13,
    input_tokens = $14, output_tokens = $15, bundle_payload = $16, first_token_at = $17
WHERE org_id = $1 AND id = $2
RETURNING log_id, created_by";

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
        self.insert_files(turn.id, &turn.request.files).await?;
        self.insert_plan(turn).await?;
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

    pub(super) async fn note_response(
        &self,
        turn: TurnId,
        response_id: &str,
        position: Option<u64>,
    ) -> Result<(), Fault> {
        let noted = self
            .transaction
            .execute(
                "UPDATE turns SET response_id = $3, provider_seq = $4
                 WHERE org_id = $1 AND id = $2 AND status = 'pending'",
                &[self.org(), turn.as_uuid(), &response_id, &position.map(int)],
            )
            .await?;
        if noted == 0 {
            self.pending_turn(turn).await?;
        }
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
        let row = self
            .transaction
            .query_opt(
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
                    &answer.and_then(|answer| answer.bundle).map(|payload| *payload.as_uuid()),
                    &response.first_token_at.map(moment),
                ],
            )
            .await?
            .ok_or(Conflict::Missing("turn"))?;
        let (status, at) = (turn.state.status(), turn.status_at());
        // The turn's log is among the locked ones; which it is, the row says and not the caller.
        for log in self.logs.values_mut() {
            log.turn_ended(turn.id, status, at);
        }
        let Some(used) = response.usage else { return Ok(()) };
        let row = Columns::new("turn", &row);
        let (user, log) =
            (row.id("created_by", UserId::from_uuid)?, row.id("log_id", LogId::from_uuid)?);
        self.add_tokens((user, log), used, at).await
    }

    async fn insert_turn(&self, turn: &Turn, number: u32) -> Result<(), Fault> {
        let (request, counts) = (&turn.request, Counts::of(turn));
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
                    &request.temperature,
                    &request.inputs.map(|payload| *payload.as_uuid()),
                    &counts.chunks,
                    &counts.bytes_sent,
                    &counts.bytes_saved,
                ],
            )
            .await?;
        Ok(())
    }

    async fn insert_files(&self, turn: TurnId, files: &[TurnFile]) -> Result<(), Fault> {
        if files.is_empty() {
            return Ok(());
        }
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let hashes: Vec<&[u8]> = files.iter().map(|file| &file.sha256.as_bytes()[..]).collect();
        let sizes: Vec<i64> = files.iter().map(|file| int(file.size_bytes)).collect();
        let touched: Vec<bool> = files.iter().map(|file| file.is_touched).collect();
        let open: Vec<bool> = files.iter().map(|file| file.is_open).collect();
        let named: Vec<bool> = files.iter().map(|file| file.is_named).collect();
        let fates: Vec<&str> = files.iter().map(|file| file.fate.as_str()).collect();
        let reasons: Vec<&str> = files.iter().map(|file| file.reason.as_str()).collect();
        self.transaction
            .execute(
                INSERT_FILES,
                &[
                    self.org(),
                    turn.as_uuid(),
                    &paths,
                    &hashes,
                    &sizes,
                    &touched,
                    &open,
                    &named,
                    &fates,
                    &reasons,
                ],
            )
            .await?;
        Ok(())
    }
}
