//! What belongs to turns and has rows of its own: files, plans and chunks. One query each for all turns of a page.

use std::collections::HashMap;

use skein_core::{
    model::{SendPlan, Turn, TurnChunk, TurnFile},
    ports::StoreError,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::{connection::Transaction, error::Fault, rows::Columns};

/// The parts of some turns, by turn.
pub(super) struct Parts {
    files: HashMap<Uuid, Vec<TurnFile>>,
    plans: HashMap<Uuid, Vec<SendPlan>>,
    chunks: HashMap<Uuid, Vec<TurnChunk>>,
}

impl Parts {
    /// Asks for all of them at once, and about no turn that has none. The transaction is set to its org already.
    pub(super) async fn of(
        transaction: &Transaction<'_>,
        org: &Uuid,
        turns: &[Row],
    ) -> Result<Self, Fault> {
        let files = rows(transaction, (FILES, org), with(turns, "file_count")?, file);
        let plans = rows(transaction, (PLANS, org), planned(turns)?, plan);
        let chunks = rows(transaction, (CHUNKS, org), with(turns, "chunk_count")?, chunk);
        let (files, plans, chunks) = futures::try_join!(files, plans, chunks)?;
        Ok(Self { files, plans, chunks })
    }

    /// Gives a turn its own.
    pub(super) fn complete(&mut self, turn: &mut Turn, row: &Columns<'_>) -> Result<(), Fault> {
        let id = turn.id.as_uuid();
        turn.request.files = self.files.remove(id).unwrap_or_default();
        if is_planned(row)? {
            let mut plan =
                self.plans.remove(id).and_then(|mut plans| plans.pop()).ok_or_else(lost)?;
            plan.chunks = self.chunks.remove(id).unwrap_or_default();
            turn.plan = Some(Box::new(plan));
        }
        Ok(())
    }
}

const FILES: &str =
    "SELECT * FROM turn_files WHERE org_id = $1 AND turn_id = ANY ($2) ORDER BY turn_id, ord";

const PLANS: &str = "SELECT * FROM turn_plans WHERE org_id = $1 AND turn_id = ANY ($2)";

const CHUNKS: &str =
    "SELECT * FROM turn_chunks WHERE org_id = $1 AND turn_id = ANY ($2) ORDER BY turn_id, ord";

fn with(turns: &[Row], count: &str) -> Result<Vec<Uuid>, Fault> {
    let mut ids = Vec::new();
    for row in turns {
        let row = Columns::new("turn", row);
        if row.small(count)? > 0 {
            ids.push(row.get("id")?);
        }
    }
    Ok(ids)
}

fn planned(turns: &[Row]) -> Result<Vec<Uuid>, Fault> {
    let mut ids = Vec::new();
    for row in turns {
        let row = Columns::new("turn", row);
        if is_planned(&row)? {
            ids.push(row.get("id")?);
        }
    }
    Ok(ids)
}

fn is_planned(row: &Columns<'_>) -> Result<bool, Fault> {
    Ok(row.opt_counter("bytes_sent")?.is_some())
}

/// By turn, each in the order of the query.
async fn rows<T>(
    transaction: &Transaction<'_>,
    (sql, org): (&str, &Uuid),
    turns: Vec<Uuid>,
    read: fn(&Columns<'_>) -> Result<T, Fault>,
) -> Result<HashMap<Uuid, Vec<T>>, Fault> {
    let mut by_turn: HashMap<Uuid, Vec<T>> = HashMap::new();
    if turns.is_empty() {
        return Ok(by_turn);
    }
    for row in &transaction.query(sql, &[org, &turns]).await? {
        let row = Columns::new("part of a turn", row);
        by_turn.entry(row.get("turn_id")?).or_default().push(read(&row)?);
    }
    Ok(by_turn)
}

fn file(row: &Columns<'_>) -> Result<TurnFile, Fault> {
    Ok(TurnFile {
        path: row.get("path")?,
        sha256: row.hash("sha256")?,
        size_bytes: row.counter("size")?,
        is_touched: row.get("touched")?,
        is_open: row.get("open")?,
        is_named: row.get("named")?,
        fate: row.word("fate")?,
        reason: row.get("reason")?,
    })
}

fn plan(row: &Columns<'_>) -> Result<SendPlan, Fault> {
    row.opt_json("data")?.ok_or_else(lost)
}

fn chunk(row: &Columns<'_>) -> Result<TurnChunk, Fault> {
    Ok(TurnChunk {
        chunk_id: row.get("chunk_id")?,
        path: row.get("path")?,
        start_line: row.small("start_line")?,
        end_line: row.small("end_line")?,
        sha256: row.hash("sha256")?,
        size_bytes: row.counter("size")?,
        score: row.get("score")?,
        fate: row.word("fate")?,
        reason: row.get("reason")?,
    })
}

fn lost() -> Fault {
    StoreError::Corrupt { entity: "turn", reason: "its plan is missing".to_owned() }.into()
}
