//! Transactions that are set to one org before anything else happens in them.
//!
//! Statements that do not depend on each other's answers are sent without waiting: what is sent first is run first, and
//! what follows a failure is refused. A round trip costs more than most statements do.

use std::{
    pin::Pin,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use deadpool_postgres::Client;
use futures::FutureExt as _;
use skein_core::model::{OrgId, Scope};
use tokio_postgres::{Error, Row, SimpleQueryMessage, Statement, types::ToSql};

use super::{OpenError, error::Fault};

/// A statement's arguments.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A statement and its arguments.
pub(super) type Query<'a> = (&'a str, Params<'a>);

/// An argument of a statement that is sent later.
pub(super) type Value<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// A statement whose answer nobody needs to go on.
pub(super) struct Deferred<'a> {
    pub(super) sql: &'static str,
    pub(super) values: Vec<Value<'a>>,
}

/// The arguments of a [`Deferred`] statement.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as $crate::postgres::connection::Value<'_>),*]
    };
}
pub(super) use values;

const READING: &str = "START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY";
const WRITING: &str = "START TRANSACTION";

/// How a connection of the pool is set up. Rows are found by their keys, in one way whatever the statistics say: these
/// lag behind a table that has just begun to grow, and planning anew for each call costs more than the call.
pub(super) const BY_KEY: &str =
    "SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan";

/// Lists are planned for what is asked.
const AS_ASKED: &str = "SET LOCAL enable_seqscan = on; SET LOCAL plan_cache_mode = auto";

/// Names the transaction, so that the server can be asked for its fate when a commit is not answered.
const NAME: &str = "SELECT pg_current_xact_id()";

/// A transaction. Dropping it rolls back without waiting, which is how reads end.
pub(super) struct Transaction<'a> {
    client: &'a Client,
    /// Begins it and sets its org.
    begin: String,
    is_begun: AtomicBool,
    /// It was asked to commit, and ends with that.
    is_over: AtomicBool,
    name: OnceLock<TransactionName>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    List,
    Find,
    Write,
}

/// By which the server knows a transaction that writes, also after a restart.
#[derive(Debug, Clone)]
pub(super) struct TransactionName(pub(super) String);

impl<'a> Transaction<'a> {
    /// A consistent view of one org.
    pub(super) fn reading(client: &'a mut Client, scope: &Scope) -> Self {
        Self::of(client, scope.org, Purpose::List)
    }

    /// As [`Self::reading`], for records that are found by their keys.
    pub(super) fn finding(client: &'a mut Client, scope: &Scope) -> Self {
        Self::of(client, scope.org, Purpose::Find)
    }

    /// Changes to one org. Each statement sees what was committed before it, so a lock is enough to decide on.
    pub(super) fn writing(client: &'a mut Client, org: OrgId) -> Self {
        Self::of(client, org, Purpose::Write)
    }

    pub(super) async fn query(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        let statement = self.client.prepare_cached(sql).await?;
        self.in_org(self.client.query(&statement, params)).await
    }

    pub(super) async fn query_opt(
        &self,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Option<Row>, Fault> {
        let statement = self.client.prepare_cached(sql).await?;
        self.in_org(self.client.query_opt(&statement, params)).await
    }

    /// Several queries in one round trip, run in this order.
    pub(super) async fn query_all(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<Row>>, Fault> {
        let mut statements = Vec::with_capacity(queries.len());
        for (sql, _) in queries {
            statements.push(self.client.prepare_cached(sql).await?);
        }
        let all = async {
            let mut sent = Vec::with_capacity(queries.len());
            for (statement, (_, params)) in statements.iter().zip(queries) {
                sent.push(Sent::now(self.client.query(statement, params)).await);
            }
            let mut rows = Vec::with_capacity(sent.len());
            for answer in sent {
                rows.push(answer.answer().await?);
            }
            Ok(rows)
        };
        self.in_org(all).await
    }

    /// Returns how many rows were changed.
    pub(super) async fn execute(&self, sql: &str, params: Params<'_>) -> Result<u64, Fault> {
        let statement = self.client.prepare_cached(sql).await?;
        self.in_org(self.client.execute(&statement, params)).await
    }

    /// Statements in one round trip, run in this order.
    pub(super) async fn execute_all(&self, deferred: Vec<Deferred<'_>>) -> Result<(), Fault> {
        let statements = self.prepare(&deferred).await?;
        let all = async { answers(self.send(&statements, deferred).await).await };
        self.in_org(all).await
    }

    /// The statements and the commit in one round trip. A commit after a statement that failed undoes everything.
    pub(super) async fn commit(&self, deferred: Vec<Deferred<'_>>) -> Result<(), Fault> {
        if !self.is_begun.load(Ordering::Relaxed) {
            if deferred.is_empty() {
                return Ok(());
            }
            // Its name must be known before it is asked to commit.
            self.execute_all(deferred).await?;
            self.is_over.store(true, Ordering::Relaxed);
            return Ok(self.client.batch_execute("COMMIT").await?);
        }
        let statements = self.prepare(&deferred).await?;
        let sent = self.send(&statements, deferred).await;
        self.is_over.store(true, Ordering::Relaxed);
        let commit = Sent::now(self.client.batch_execute("COMMIT")).await;
        answers(sent).await?;
        Ok(commit.answer().await?)
    }

    /// Absent for one that has not done anything.
    pub(super) fn name(&self) -> Option<TransactionName> {
        self.name.get().cloned()
    }

    /// All of them before any is sent, or one that is known could overtake one that is not.
    async fn prepare(&self, deferred: &[Deferred<'_>]) -> Result<Vec<Statement>, Fault> {
        let mut statements = Vec::with_capacity(deferred.len());
        for statement in deferred {
            statements.push(self.client.prepare_cached(statement.sql).await?);
        }
        Ok(statements)
    }

    async fn send<'b>(
        &'b self,
        statements: &'b [Statement],
        deferred: Vec<Deferred<'b>>,
    ) -> Vec<Sent<'b, u64>> {
        let mut sent = Vec::with_capacity(deferred.len());
        for (statement, Deferred { values, .. }) in statements.iter().zip(deferred) {
            sent.push(Sent::now(self.client.execute_raw(statement, values)).await);
        }
        sent
    }

    fn of(client: &'a Client, org: OrgId, purpose: Purpose) -> Self {
        // An id is digits and dashes, so nothing in it could end the quotes.
        let set_org = format!("SET LOCAL skein.org = '{org}'");
        let begin = match purpose {
            Purpose::List => format!("{READING}; {set_org}; {AS_ASKED}"),
            Purpose::Find => format!("{READING}; {set_org}"),
            Purpose::Write => format!("{WRITING}; {set_org}; {NAME}"),
        };
        Self {
            client,
            begin,
            is_begun: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            name: OnceLock::new(),
        }
    }

    /// Begins, and sets the org, before the first statement and in the same round trip: a statement that came without it
    /// would see nothing. The setting ends with the transaction, so a pooled connection carries no org to its next user.
    async fn in_org<T>(
        &self,
        statement: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Fault> {
        if self.is_begun.load(Ordering::Relaxed) {
            return Ok(statement.await?);
        }
        self.is_begun.store(true, Ordering::Relaxed);
        // Polled in this order, and sent when they are polled first.
        let begin = self.client.simple_query(&self.begin);
        let (begun, result) = futures::join!(begin, statement);
        let name = begun?.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        if let Some(name) = name {
            self.name.get_or_init(|| TransactionName(name));
        }
        Ok(result?)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if *self.is_begun.get_mut() && !*self.is_over.get_mut() {
            // Sent when it is polled, and nobody waits for the answer.
            drop(self.client.batch_execute("ROLLBACK").now_or_never());
        }
    }
}

/// A request that is on its way.
struct Sent<'a, T> {
    waiting: Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>,
    early: Poll<Result<T, Error>>,
}

impl<'a, T> Sent<'a, T> {
    /// The client sends a request when it is polled first.
    async fn now(request: impl Future<Output = Result<T, Error>> + Send + 'a) -> Self {
        let mut waiting: Pin<Box<dyn Future<Output = _> + Send + 'a>> = Box::pin(request);
        let early = futures::poll!(waiting.as_mut());
        Self { waiting, early }
    }

    async fn answer(self) -> Result<T, Error> {
        match self.early {
            Poll::Ready(answer) => answer,
            Poll::Pending => self.waiting.await,
        }
    }
}

/// The first failure, if there is one.
async fn answers(sent: Vec<Sent<'_, u64>>) -> Result<(), Error> {
    for statement in sent {
        statement.answer().await?;
    }
    Ok(())
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
