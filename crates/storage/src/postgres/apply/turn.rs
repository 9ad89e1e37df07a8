//! Turns: numbered by their log, started one at a time, finished once.

use skein_core::{
    model::{AccessVia, SessionId, Timestamp, Turn, TurnId, TurnState, TurnStatus, UserId},
    ports::Conflict,
};

use super::{
    super::{
        connection::values,
        error::Fault,
        rows::{int, moment, pack_list, small},
    },
    Applying,
    facts::{PARTICIPANT, Participant, TurnProgress},
    plan::Counts,
};

const INSERT_TURN: &str = "INSERT INTO turns (
    org_id, id, log_id, number, created_by, ticket_id, status, mode, queued_at, started_at, dispatched_at,
    conversation_id, previous_response_id, model, rerun_of, workspace_id, repo, language, rag_scope,
    instruction_payload, request_payload, file_count, warnings, instruction_summary, temperature, inputs_payload,
    chunk_count, bytes_sent, bytes_saved, asked_model, asked_temperature
) VALUES ($1, $2, $3, $4, $5, $6, 'pending', $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
          $22, $23, $24, $25, $26, $27, $28, $29, $30)";

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
WHERE org_id = $1 AND id = $2";

impl<'a> Applying<'a> {
    pub(super) async fn create_turn(
        &mut self,
        session: SessionId,
        turn: &'a Turn,
    ) -> Result<(), Fault> {
        self.own(turn.org)?;
        let participant = self.participant(session, turn.created_by).await?;
        if participant.log != turn.log {
            return Err(Conflict::Missing("session").into());
        }
        let number = self.log(turn.log)?.add_turn(turn.id, turn.created_at);
        self.insert_turn(turn, number)?;
        self.insert_files(turn);
        self.insert_plan(turn)?;
        if !participant.is_known {
            self.flush().await?;
            let via = AccessVia::TookPart.as_str();
            self.give_access(session, *turn.created_by.as_uuid(), via).await?;
        }
        self.numbered.push((turn.id, number));
        let progress =
            TurnProgress { status: TurnStatus::Pending, is_started: turn.started_at.is_some() };
        self.facts.turns.insert(turn.id, progress);
        Ok(())
    }

    /// Found when the locks were taken, unless this change set creates the session.
    async fn participant(
        &mut self,
        session: SessionId,
        user: UserId,
    ) -> Result<Participant, Fault> {
        if let Some(known) = self.facts.participants.get(&(session, user)) {
            return Ok(*known);
        }
        self.flush().await?;
        let found = self
            .transaction
            .query_opt(PARTICIPANT, &[self.org(), session.as_uuid(), user.as_uuid()])
            .await?;
        Participant::from(&found.ok_or(Conflict::Missing("session"))?)
    }

    pub(super) fn start_turn(&mut self, turn: TurnId, at: Timestamp) -> Result<(), Fault> {
        let progress = self.pending_turn(turn)?;
        if progress.is_started {
            return Err(Conflict::TurnStarted(turn).into());
        }
        progress.is_started = true;
        // The agent is called right after this, so the turn is dispatched from here on.
        self.later(
            "UPDATE turns SET started_at = $3, dispatched_at = $3
             WHERE org_id = $1 AND id = $2 AND status = 'pending' AND started_at IS NULL",
            values![self.org(), *turn.as_uuid(), moment(at)],
        );
        Ok(())
    }

    pub(super) fn note_response(
        &mut self,
        turn: TurnId,
        response_id: &'a str,
        position: Option<u64>,
    ) -> Result<(), Fault> {
        self.pending_turn(turn)?;
        let values = values![self.org(), *turn.as_uuid(), response_id, position.map(int)];
        self.later(
            "UPDATE turns SET response_id = $3, provider_seq = $4 WHERE org_id = $1 AND id = $2",
            values,
        );
        Ok(())
    }

    pub(super) fn finish_turn(&mut self, turn: &'a Turn) -> Result<(), Fault> {
        self.pending_turn(turn.id)?.status = turn.state.status();
        let (answer, failure, response) = match &turn.state {
            TurnState::Pending => (None, None, None),
            TurnState::Completed(answer) => (Some(answer), None, Some(&answer.response)),
            TurnState::Failed(failure) => (None, Some(failure), Some(&failure.response)),
        };
        let errors = failure.map_or(&[][..], |failure| &failure.errors);
        let usage = response.and_then(|response| response.usage);
        let values = values![
            self.org(),
            turn.id.as_uuid(),
            turn.state.status().as_str(),
            moment(turn.status_at()),
            pack_list("turn", &turn.warnings)?,
            answer.map(|answer| &answer.summary),
            answer.map(|answer| *answer.text.as_uuid()),
            failure.map(|failure| failure.code.as_str()),
            pack_list("turn", errors)?,
            response.and_then(|response| response.id.as_ref()),
            response.and_then(|response| response.received_at).map(moment),
            response.and_then(|response| response.chain_expires_at).map(moment),
            response.and_then(|response| response.payload).map(|payload| *payload.as_uuid()),
            usage.map(|usage| int(usage.input_tokens)),
            usage.map(|usage| int(usage.output_tokens)),
            answer.and_then(|answer| answer.bundle).map(|payload| *payload.as_uuid()),
            response.and_then(|response| response.first_token_at).map(moment),
        ];
        self.later(FINISH_TURN, values);
        let (status, at) = (turn.state.status(), turn.status_at());
        // The turn's log is among the locked ones; which it is, the row says and not the caller.
        for log in self.logs.values_mut() {
            log.turn_ended(turn.id, status, at);
        }
        if let Some(used) = usage {
            self.add_tokens(turn, used);
        }
        Ok(())
    }

    fn insert_turn(&mut self, turn: &'a Turn, number: u32) -> Result<(), Fault> {
        let (request, counts) = (&turn.request, Counts::of(turn));
        let values = values![
            self.org(),
            turn.id.as_uuid(),
            turn.log.as_uuid(),
            small(number),
            turn.created_by.as_uuid(),
            turn.ticket.as_uuid(),
            request.mode.as_str(),
            moment(turn.created_at),
            turn.started_at.map(moment),
            turn.dispatched_at.map(moment),
            request.conversation.as_uuid(),
            &request.previous_response_id,
            &request.model,
            request.rerun_of.map(|turn| *turn.as_uuid()),
            &request.workspace_id,
            &request.repo,
            &request.language,
            pack_list("turn", &request.scope_paths)?,
            request.instruction.as_uuid(),
            request.request_payload.map(|payload| *payload.as_uuid()),
            i32::try_from(request.files.len()).unwrap_or(i32::MAX),
            pack_list("turn", &turn.warnings)?,
            &request.instruction_summary,
            &request.temperature,
            request.inputs.map(|payload| *payload.as_uuid()),
            counts.chunks,
            counts.bytes_sent,
            counts.bytes_saved,
            &request.asked.model,
            &request.asked.temperature,
        ];
        self.later(INSERT_TURN, values);
        Ok(())
    }

    fn insert_files(&mut self, turn: &'a Turn) {
        let files = &turn.request.files;
        if files.is_empty() {
            return;
        }
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let hashes: Vec<&[u8]> = files.iter().map(|file| &file.sha256.as_bytes()[..]).collect();
        let sizes: Vec<i64> = files.iter().map(|file| int(file.size_bytes)).collect();
        let touched: Vec<bool> = files.iter().map(|file| file.is_touched).collect();
        let open: Vec<bool> = files.iter().map(|file| file.is_open).collect();
        let named: Vec<bool> = files.iter().map(|file| file.is_named).collect();
        let fates: Vec<&str> = files.iter().map(|file| file.fate.as_str()).collect();
        let reasons: Vec<&str> = files.iter().map(|file| file.reason.as_str()).collect();
        let values = values![
            self.org(),
            turn.id.as_uuid(),
            paths,
            hashes,
            sizes,
            touched,
            open,
            named,
            fates,
            reasons,
        ];
        self.later(INSERT_FILES, values);
    }
}
