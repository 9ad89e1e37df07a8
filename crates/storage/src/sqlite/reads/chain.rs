//! What the provider's side of a log holds.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use skein_core::{
    model::{ChainItem, ChainItemKind, LiveChain, LogId, OrgId, Scope, TurnId},
    ports::{ChainReads, ChainView, StoreError},
};

use super::super::{
    SqliteStore,
    error::Fault,
    rows::{Columns, key},
};
use crate::codec;

#[async_trait]
impl ChainReads for SqliteStore {
    async fn chain_view(
        &self,
        scope: &Scope,
        log: LogId,
        files: &[String],
        chunks: &[String],
    ) -> Result<Option<ChainView>, StoreError> {
        let org = scope.org;
        let wanted = [
            (ChainItemKind::File, codec::json_text("chain item", &files)?, files.len()),
            (ChainItemKind::Chunk, codec::json_text("chain item", &chunks)?, chunks.len()),
        ];
        self.readers
            .read(move |connection| {
                // What is held is to be that of the very chain that is read.
                let _snapshot = connection.unchecked_transaction()?;
                let Some(chain) = find(connection, org, log)? else { return Ok(None) };
                let mut held = Vec::new();
                for (kind, refs, count) in &wanted {
                    if *count > 0 {
                        held.extend(held_of(connection, org, (log, chain.number), (*kind, refs))?);
                    }
                }
                let last_chunks = chunks_of(connection, org, chain.tip)?;
                Ok(Some(ChainView { chain, held, last_chunks }))
            })
            .await
    }

    async fn chain_items(
        &self,
        scope: &Scope,
        log: LogId,
        chain: u32,
        limit: u32,
    ) -> Result<Vec<ChainItem>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT kind, ref, sha256, size, texts_payload FROM chain_items
                     WHERE org_id = ?1 AND log_id = ?2 AND chain_no = ?3
                     ORDER BY ord DESC LIMIT ?4",
                )?;
                let mut rows = statement.query(params![key(&org), key(&log), chain, limit])?;
                let mut items = Vec::new();
                while let Some(row) = rows.next()? {
                    items.push(item(row)?);
                }
                Ok(items)
            })
            .await
    }
}

fn find(connection: &Connection, org: OrgId, log: LogId) -> Result<Option<LiveChain>, Fault> {
    let read = |row: &Row<'_>| {
        let mut columns = Columns::new("chain", row);
        Ok(LiveChain {
            number: columns.get()?,
            provider: columns.get()?,
            model: columns.get()?,
            response_id: columns.get()?,
            expires_at: columns.opt_time()?,
            tip: columns.id()?,
            history_bytes: columns.counter()?,
            open_calls: columns.opt_json()?.unwrap_or_default(),
        })
    };
    connection
        .prepare_cached(
            "SELECT chain_no, provider, model, response_id, expires_at, tip_turn, history_bytes,
                 open_calls
             FROM chains WHERE org_id = ?1 AND log_id = ?2",
        )?
        .query_row(params![key(&org), key(&log)], |row| Ok(read(row)))
        .optional()?
        .transpose()
}

/// Looks each of them up, so the size of the chain does not matter.
fn held_of(
    connection: &Connection,
    org: OrgId,
    (log, chain): (LogId, u32),
    (kind, refs): (ChainItemKind, &str),
) -> Result<Vec<ChainItem>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT kind, ref, sha256, size, texts_payload FROM chain_items
         WHERE org_id = ?1 AND log_id = ?2 AND chain_no = ?3 AND kind = ?4
           AND ref IN (SELECT value FROM json_each(?5))",
    )?;
    let mut rows = statement.query(params![key(&org), key(&log), chain, kind.as_str(), refs])?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(item(row)?);
    }
    Ok(items)
}

fn chunks_of(connection: &Connection, org: OrgId, turn: TurnId) -> Result<Vec<String>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT chunk_id FROM turn_chunks WHERE org_id = ?1 AND turn_id = ?2 ORDER BY ord",
    )?;
    let mut rows = statement.query(params![key(&org), key(&turn)])?;
    let mut chunks = Vec::new();
    while let Some(row) = rows.next()? {
        chunks.push(Columns::new("chunk of a turn", row).get()?);
    }
    Ok(chunks)
}

fn item(row: &Row<'_>) -> Result<ChainItem, Fault> {
    let mut columns = Columns::new("chain item", row);
    Ok(ChainItem {
        kind: columns.word()?,
        item: columns.get()?,
        sha256: columns.hash()?,
        size_bytes: columns.counter()?,
        texts: columns.id()?,
    })
}
