//! Tokens that were used.

use async_trait::async_trait;
use skein_core::{
    model::Scope,
    ports::{StoreError, UsageReads, UsageSubject},
};
use tokio_postgres::Row;

use super::super::{PostgresStore, error::Fault, rows::Columns};
use crate::usage;

#[async_trait]
impl UsageReads for PostgresStore {
    async fn tokens_used(
        &self,
        scope: &Scope,
        by: UsageSubject,
        since_day: i64,
    ) -> Result<u64, StoreError> {
        let (kind, id) = usage::key(scope.org, by);
        let sql = "SELECT coalesce(sum(tokens), 0)::bigint AS tokens FROM token_usage
             WHERE org_id = $1 AND subject_kind = $2 AND subject_id = $3 AND day >= $4";
        let used =
            self.find(scope, (sql, &[scope.org.as_uuid(), &kind, &id, &since_day]), tokens).await?;
        Ok(used.unwrap_or_default())
    }
}

fn tokens(row: &Row) -> Result<u64, Fault> {
    Columns::new("token usage", row).counter("tokens")
}
