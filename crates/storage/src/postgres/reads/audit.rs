//! The audit log: listed, and checked link by link.

use async_trait::async_trait;
use skein_core::{
    model::{AuditHead, AuditReport, AuditRow, Scope, UserId},
    ports::{AuditReads, StoreError},
};
use tokio_postgres::Row;

use super::super::{
    PostgresStore,
    audit::content,
    connection::{Params, Query},
    error::Fault,
    rows::{Columns, int},
};
use crate::audit_chain::{ChainVerifier, PAGE_ROWS, StoredRow};

const PAGE: &str = "SELECT chain_no, chain_hash, at, actor, action, target, detail FROM audit
     WHERE org_id = $1 AND chain_no > $2 ORDER BY chain_no LIMIT $3";

const UNSEALED: &str =
    "SELECT count(*) AS unsealed FROM audit WHERE org_id = $1 AND chain_no IS NULL";

#[async_trait]
impl AuditReads for PostgresStore {
    async fn list_audit(
        &self,
        scope: &Scope,
        after: u64,
        limit: u32,
    ) -> Result<Vec<AuditRow>, StoreError> {
        let query: Query<'_> = (PAGE, &[scope.org.as_uuid(), &int(after), &i64::from(limit)]);
        self.list(scope, query, listed).await
    }

    /// Page by page: no transaction stays open for as long as a long log takes.
    async fn verify_audit(
        &self,
        scope: &Scope,
        seen: Option<AuditHead>,
    ) -> Result<AuditReport, StoreError> {
        let mut verifier = ChainVerifier::new(scope.org, seen);
        let mut after = 0;
        loop {
            let params: Params<'_> = &[scope.org.as_uuid(), &int(after), &i64::from(PAGE_ROWS)];
            let page = self.list(scope, (PAGE, params), stored).await?;
            let is_decided = page.iter().any(|row| !verifier.check(row));
            match page.last() {
                Some(last) if !is_decided => after = last.chain_no,
                _ => break,
            }
        }
        let count = |row: &Row| Columns::new("audit row", row).counter("unsealed");
        let unsealed = self.find(scope, (UNSEALED, &[scope.org.as_uuid()]), count).await?;
        Ok(verifier.report(unsealed.unwrap_or_default()))
    }
}

fn stored(row: &Row) -> Result<StoredRow, Fault> {
    let row = Columns::new("audit row", row);
    Ok(StoredRow {
        chain_no: row.counter("chain_no")?,
        hash: row.get::<Option<Vec<u8>>>("chain_hash")?.unwrap_or_default(),
        content: Some(content(&row)?),
    })
}

fn listed(row: &Row) -> Result<AuditRow, Fault> {
    let row = Columns::new("audit row", row);
    let detail: Vec<u8> = row.get("detail")?;
    Ok(AuditRow {
        number: row.counter("chain_no")?,
        at: row.time("at")?,
        actor: row.id("actor", UserId::from_uuid)?,
        action: row.get("action")?,
        target: row.get("target")?,
        detail: serde_json::from_slice(&detail).map_err(|error| row.corrupt(error))?,
        hash: row.hash("chain_hash")?,
    })
}
