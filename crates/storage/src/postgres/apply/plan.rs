//! What turns give to their agents.

use skein_core::{
    model::{Turn, TurnChunk},
    ports::Conflict,
};

use super::{
    super::{
        connection::values,
        error::Fault,
        rows::{int, pack_list, small},
    },
    Applying,
};
use crate::codec;

const UPDATE_TURN: &str = "UPDATE turns SET
    model = $3, temperature = $4, previous_response_id = $5, request_payload = $6, warnings = $7,
    chunk_count = $8, bytes_sent = $9, bytes_saved = $10
WHERE org_id = $1 AND id = $2";

const DECIDE_FILES: &str = "UPDATE turn_files f SET fate = new.fate, reason = new.reason
FROM unnest($3::text[], $4::text[], $5::text[]) AS new (path, fate, reason)
WHERE f.org_id = $1 AND f.turn_id = $2 AND f.path = new.path";

const FORGET: &str = "WITH chunks AS (DELETE FROM turn_chunks WHERE org_id = $1 AND turn_id = $2)
DELETE FROM turn_plans WHERE org_id = $1 AND turn_id = $2";

const INSERT_CHUNKS: &str = "INSERT INTO turn_chunks
    (org_id, turn_id, ord, chunk_id, path, start_line, end_line, sha256, size, score, fate, reason)
SELECT $1, $2, new.ord - 1, new.chunk_id, new.path, new.start_line, new.end_line, new.sha256, new.size, new.score,
       new.fate, new.reason
FROM unnest($3::text[], $4::text[], $5::integer[], $6::integer[], $7::bytea[], $8::bigint[], $9::double precision[],
            $10::text[], $11::text[]) WITH ORDINALITY
    AS new (chunk_id, path, start_line, end_line, sha256, size, score, fate, reason, ord)";

/// The columns of a turn that follow from its plan.
pub(super) struct Counts {
    pub(super) chunks: i32,
    pub(super) bytes_sent: Option<i64>,
    pub(super) bytes_saved: Option<i64>,
}

impl Counts {
    pub(super) fn of(turn: &Turn) -> Self {
        let plan = turn.plan.as_deref();
        Self {
            chunks: plan.map_or(0, |plan| i32::try_from(plan.chunks.len()).unwrap_or(i32::MAX)),
            bytes_sent: plan.map(|plan| int(plan.sent.bytes)),
            bytes_saved: plan.map(|plan| int(plan.saved.bytes)),
        }
    }
}

impl<'a> Applying<'a> {
    /// Writes the plan of a turn that is still pending, over the one that it had.
    pub(super) async fn plan_turn(&mut self, turn: &'a Turn) -> Result<(), Fault> {
        self.pending_turn(turn.id)?;
        let (request, counts) = (&turn.request, Counts::of(turn));
        self.transaction
            .execute(
                UPDATE_TURN,
                &[
                    self.org(),
                    turn.id.as_uuid(),
                    &request.model,
                    &request.temperature,
                    &request.previous_response_id,
                    &request.request_payload.map(|payload| *payload.as_uuid()),
                    &pack_list("turn", &turn.warnings)?,
                    &counts.chunks,
                    &counts.bytes_sent,
                    &counts.bytes_saved,
                ],
            )
            .await?;
        self.decide_files(turn).await?;
        self.transaction.execute(FORGET, &[self.org(), turn.id.as_uuid()]).await?;
        self.insert_plan(turn)
    }

    /// The plan, if the turn has one.
    pub(super) fn insert_plan(&mut self, turn: &'a Turn) -> Result<(), Fault> {
        let Some(plan) = turn.plan.as_deref() else { return Ok(()) };
        let values = values![self.org(), turn.id.as_uuid(), codec::pack_json("plan", plan)?];
        self.later("INSERT INTO turn_plans (org_id, turn_id, data) VALUES ($1, $2, $3)", values);
        self.insert_chunks(turn, &plan.chunks);
        Ok(())
    }

    async fn decide_files(&self, turn: &Turn) -> Result<(), Fault> {
        let files = &turn.request.files;
        if files.is_empty() {
            return Ok(());
        }
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let fates: Vec<&str> = files.iter().map(|file| file.fate.as_str()).collect();
        let reasons: Vec<&str> = files.iter().map(|file| file.reason.as_str()).collect();
        let decided = self
            .transaction
            .execute(DECIDE_FILES, &[self.org(), turn.id.as_uuid(), &paths, &fates, &reasons])
            .await?;
        if decided != files.len() as u64 {
            return Err(Conflict::Missing("turn file").into());
        }
        Ok(())
    }

    fn insert_chunks(&mut self, turn: &'a Turn, chunks: &'a [TurnChunk]) {
        if chunks.is_empty() {
            return;
        }
        let ids: Vec<&str> = chunks.iter().map(|chunk| chunk.chunk_id.as_str()).collect();
        let paths: Vec<&str> = chunks.iter().map(|chunk| chunk.path.as_str()).collect();
        let starts: Vec<i32> = chunks.iter().map(|chunk| small(chunk.start_line)).collect();
        let ends: Vec<i32> = chunks.iter().map(|chunk| small(chunk.end_line)).collect();
        let hashes: Vec<&[u8]> = chunks.iter().map(|chunk| &chunk.sha256.as_bytes()[..]).collect();
        let sizes: Vec<i64> = chunks.iter().map(|chunk| int(chunk.size_bytes)).collect();
        let scores: Vec<f64> = chunks.iter().map(|chunk| chunk.score).collect();
        let fates: Vec<&str> = chunks.iter().map(|chunk| chunk.fate.as_str()).collect();
        let reasons: Vec<&str> = chunks.iter().map(|chunk| chunk.reason.as_str()).collect();
        let values = values![
            self.org(),
            turn.id.as_uuid(),
            ids,
            paths,
            starts,
            ends,
            hashes,
            sizes,
            scores,
            fates,
            reasons,
        ];
        self.later(INSERT_CHUNKS, values);
    }
}
