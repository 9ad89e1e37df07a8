//! The audit log: listed, and checked link by link.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use skein_core::{
    model::{AuditHead, AuditReport, AuditRow, OrgId, Scope},
    ports::{AuditReads, StoreError},
};

use super::super::{
    SqliteStore,
    error::Fault,
    rows::{Columns, int, key},
};
use crate::audit_chain::{ChainVerifier, PAGE_ROWS, StoredContent, StoredRow};

#[async_trait]
impl AuditReads for SqliteStore {
    async fn list_audit(
        &self,
        scope: &Scope,
        after: u64,
        limit: u32,
    ) -> Result<Vec<AuditRow>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let mut statement = connection.prepare_cached(PAGE)?;
                let mut rows = statement.query(params![key(&org), int(after), limit])?;
                let mut audit = Vec::new();
                while let Some(row) = rows.next()? {
                    audit.push(read_row(row)?);
                }
                Ok(audit)
            })
            .await
    }

    /// Page by page: neither a reader nor the write-ahead log is held for as long as a long log takes.
    async fn verify_audit(
        &self,
        scope: &Scope,
        seen: Option<AuditHead>,
    ) -> Result<AuditReport, StoreError> {
        let org = scope.org;
        let mut verifier = ChainVerifier::new(org, seen);
        let mut after = 0;
        loop {
            let page = self.readers.read(move |connection| page(connection, org, after)).await?;
            let is_decided = page.iter().any(|row| !verifier.check(row));
            match page.last() {
                Some(last) if !is_decided => after = last.chain_no,
                _ => break,
            }
        }
        let unsealed = self.readers.read(move |connection| unsealed(connection, org)).await?;
        Ok(verifier.report(unsealed))
    }
}

const PAGE: &str = "SELECT chain_no, chain_hash, at, actor, action, target, detail FROM audit
     WHERE org_id = ?1 AND chain_no > ?2 ORDER BY chain_no LIMIT ?3";

fn page(connection: &Connection, org: OrgId, after: u64) -> Result<Vec<StoredRow>, Fault> {
    let mut statement = connection.prepare_cached(PAGE)?;
    let mut rows = statement.query(params![key(&org), int(after), PAGE_ROWS])?;
    let mut page = Vec::new();
    while let Some(row) = rows.next()? {
        let mut columns = Columns::new("audit row", row);
        page.push(StoredRow {
            chain_no: columns.counter()?,
            hash: columns.get::<Option<Vec<u8>>>()?.unwrap_or_default(),
            content: readable(content(row))?,
        });
    }
    Ok(page)
}

fn content(row: &Row<'_>) -> Result<StoredContent, Fault> {
    let mut columns = Columns::after("audit row", row, 2);
    Ok(StoredContent {
        at: columns.time()?,
        actor: columns.id()?,
        action: columns.text_bytes()?,
        target: columns.text_bytes()?,
        detail: columns.get()?,
    })
}

/// Whatever a row was changed into, it is the check's to name and not an error of the read.
fn readable(content: Result<StoredContent, Fault>) -> Result<Option<StoredContent>, Fault> {
    match content {
        Ok(content) => Ok(Some(content)),
        Err(Fault::Store(StoreError::Corrupt { .. })) => Ok(None),
        Err(fault) => Err(fault),
    }
}

fn read_row(row: &Row<'_>) -> Result<AuditRow, Fault> {
    let mut columns = Columns::new("audit row", row);
    let (number, hash) = (columns.counter()?, columns.hash()?);
    let (at, actor) = (columns.time()?, columns.id()?);
    let (action, target) = (columns.get()?, columns.get()?);
    let detail: Vec<u8> = columns.get()?;
    let detail = serde_json::from_slice(&detail).map_err(|error| columns.corrupt(error))?;
    Ok(AuditRow { number, at, actor, action, target, detail, hash })
}

fn unsealed(connection: &Connection, org: OrgId) -> Result<u64, Fault> {
    let count: i64 = connection
        .prepare_cached("SELECT count(*) FROM audit WHERE org_id = ?1 AND chain_no IS NULL")?
        .query_row(params![key(&org)], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}
