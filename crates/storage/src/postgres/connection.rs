//! Transactions that are set to one org before anything else happens in them.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use deadpool_postgres::Client;
use skein_core::model::{OrgId, Scope};
use tokio_postgres::{IsolationLevel, Row, types::ToSql};

use super::{OpenError, error::Fault};

/// A statement's arguments.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A statement and its arguments.
pub(super) type Query<'a> = (&'a str, Params<'a>);

const SET_ORG: &str = "SELECT set_config('skein.org', $1, true), NULL::text";

/// Also names the transaction, so that the server can be asked for its fate when a commit is not answered.
const SET_ORG_AND_NAME: &str =
    "SELECT set_config('skein.org', $1, true), pg_current_xact_id()::text";

/// A transaction. Dropping it rolls back without waiting, which is how reads end.
pub(super) struct Transaction<'a> {
    inner: deadpool_postgres::Transaction<'a>,
    org: String,
    set_org: &'static str,
    is_set: AtomicBool,
    name: OnceLock<TransactionName>,
}

/// By which the server knows a transaction that writes, also after a restart.
#[derive(Debug, Clone)]
pub(super) struct TransactionName(pub(super) String);

impl<'a> Transaction<'a> {
    /// A consistent view of one org.
    pub(super) async fn reading(client: &'a mut Client, scope: &Scope) -> Result<Self, Fault> {
        let transaction = client
            .build_transaction()
            .isolation_level(IsolationLevel::RepeatableRead)
            .read_only(true)
            .start()
            .await?;
        Ok(Self::of(transaction, scope.org, SET_ORG))
    }

    /// Changes to one org. Each statement sees what was committed before it, so a lock is enough to decide on.
    pub(super) async fn writing(client: &'a mut Client, org: OrgId) -> Result<Self, Fault> {
        let transaction = client.transaction().await?;
        Ok(Self::of(transaction, org, SET_ORG_AND_NAME))
    }

    pub(super) async fn query(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        let statement = self.inner.prepare_cached(sql).await?;
        self.in_org(self.inner.query(&statement, params)).await
    }

    pub(super) async fn query_opt(
        &self,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Option<Row>, Fault> {
        let statement = self.inner.prepare_cached(sql).await?;
        self.in_org(self.inner.query_opt(&statement, params)).await
    }

    /// Returns how many rows were changed.
    pub(super) async fn execute(&self, sql: &str, params: Params<'_>) -> Result<u64, Fault> {
        let statement = self.inner.prepare_cached(sql).await?;
        self.in_org(self.inner.execute(&statement, params)).await
    }

    pub(super) async fn commit(self) -> Result<(), Fault> {
        Ok(self.inner.commit().await?)
    }

    /// Absent for one that has not done anything.
    pub(super) fn name(&self) -> Option<TransactionName> {
        self.name.get().cloned()
    }

    fn of(inner: deadpool_postgres::Transaction<'a>, org: OrgId, set_org: &'static str) -> Self {
        let (is_set, name) = (AtomicBool::new(false), OnceLock::new());
        Self { inner, org: org.to_string(), set_org, is_set, name }
    }

    /// Sets the org before the first statement and in the same round trip: what is sent first is run first, and a
    /// statement that came without it would see nothing. The setting ends with the transaction, so a pooled connection
    /// carries no org to its next user.
    async fn in_org<T>(
        &self,
        statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Fault> {
        if self.is_set.swap(true, Ordering::Relaxed) {
            return Ok(statement.await?);
        }
        let set_org = self.inner.prepare_cached(self.set_org).await?;
        let org: Params<'_> = &[&self.org];
        // Polled in this order, and sent when they are polled first.
        let (set, result) = futures::join!(self.inner.query_one(&set_org, org), statement);
        if let Some(name) = set?.try_get(1)? {
            self.name.get_or_init(|| TransactionName(name));
        }
        Ok(result?)
    }
}

/// Row-level security binds neither superusers nor roles with BYPASSRLS, and an owner could switch it off.
pub(super) async fn refuse_unsafe_role(client: &Client) -> Result<(), OpenError> {
    let unreachable = |error: tokio_postgres::Error| OpenError::Unreachable(Box::new(error));
    let row = client
        .query_one(
            "SELECT current_user::text, r.rolsuper, r.rolbypassrls,
                    EXISTS (SELECT 1 FROM pg_class c
                            WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
                              AND pg_has_role(c.relowner, 'MEMBER'))
             FROM pg_roles r WHERE r.rolname = current_user",
            &[],
        )
        .await
        .map_err(unreachable)?;
    let flag = |column: usize| row.try_get::<_, bool>(column).map_err(unreachable);
    let refused = [(1, "a superuser"), (2, "allowed to bypass it"), (3, "the owner of its tables")];
    for (column, why) in refused {
        if flag(column)? {
            let role = row.try_get(0).map_err(unreachable)?;
            return Err(OpenError::UnsafeRole { role, why });
        }
    }
    Ok(())
}
