//! Reads, each in a short transaction that sees one org.

mod audit;
mod chain;
mod document;
mod event;
mod payload;
mod people;
mod permission;
mod registry;
mod session;
mod session_list;
mod system;
mod turn;
mod turn_parts;
mod usage;

use skein_core::{model::Scope, ports::StoreError};
use tokio_postgres::Row;

use super::{
    PostgresStore,
    connection::{Query, Transaction},
    error::Fault,
};

impl PostgresStore {
    /// The one row that a query has, if any.
    async fn find<T>(
        &self,
        scope: &Scope,
        (sql, params): Query<'_>,
        read: fn(&Row) -> Result<T, Fault>,
    ) -> Result<Option<T>, StoreError> {
        let mut client = self.client().await?;
        let transaction = Transaction::reading(&mut client, scope);
        let row = transaction.query_opt(sql, params).await?;
        Ok(row.as_ref().map(read).transpose()?)
    }

    /// Every row of a query that limits itself.
    async fn list<T>(
        &self,
        scope: &Scope,
        (sql, params): Query<'_>,
        read: fn(&Row) -> Result<T, Fault>,
    ) -> Result<Vec<T>, StoreError> {
        let mut client = self.client().await?;
        let transaction = Transaction::reading(&mut client, scope);
        let rows = transaction.query(sql, params).await?;
        Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
    }
}
