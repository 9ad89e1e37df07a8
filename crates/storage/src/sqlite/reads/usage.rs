//! Tokens that were used.

use async_trait::async_trait;
use rusqlite::params;
use skein_core::{
    model::Scope,
    ports::{StoreError, UsageReads, UsageSubject},
};

use super::super::{SqliteStore, rows::key};
use crate::usage;

#[async_trait]
impl UsageReads for SqliteStore {
    async fn tokens_used(
        &self,
        scope: &Scope,
        by: UsageSubject,
        since_day: i64,
    ) -> Result<u64, StoreError> {
        let org = scope.org;
        let (kind, id) = usage::key(org, by);
        self.readers
            .read(move |connection| {
                let tokens: i64 = connection
                    .prepare_cached(
                        "SELECT coalesce(sum(tokens), 0) FROM token_usage
                         WHERE org_id = ?1 AND subject_kind = ?2 AND subject_id = ?3 AND day >= ?4",
                    )?
                    .query_row(params![key(&org), kind, id.as_bytes(), since_day], |row| {
                        row.get(0)
                    })?;
                Ok(tokens.unsigned_abs())
            })
            .await
    }
}
