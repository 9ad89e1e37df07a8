//! The PostgreSQL engine: one transaction per change set, every row guarded by the org that the transaction is set to.

mod apply;
mod audit;
mod connection;
mod error;
mod fate;
pub mod migrate;
mod reads;
mod rows;
mod tenure;

use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::{
    Client, Hook, HookError, Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Runtime,
};
use skein_core::{
    model::Scope,
    ports::{ChangeSet, Committed, Store, StoreError},
};
use tokio_postgres::{Config, NoTls};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use self::{
    connection::{Transaction, TransactionName},
    error::Fault,
    fate::Fate,
};
use crate::migrations::MigrateError;

pub use tenure::{Displaced, Tenure};

/// The principal that stands for everyone in an org.
const EVERYONE: Uuid = Uuid::nil();

/// The principal under which all sessions of an org are counted.
const WHOLE_ORG: Uuid = Uuid::max();

/// A store in a PostgreSQL database. Clones share its connections.
///
/// Connections that a restart of the server broke are replaced as they are needed.
#[derive(Clone)]
pub struct PostgresStore {
    pool: Pool,
    /// Commits run to their end here, whether or not their caller still waits.
    commits: TaskTracker,
}

/// Why a database cannot be used as a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the database URL cannot be read")]
    Url(#[source] tokio_postgres::Error),
    #[error("the database cannot be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Row-level security does not hold for such a role, so tenants would not be kept apart.
    #[error("the database role {role} is {why}, and row-level security does not bind it")]
    UnsafeRole { role: String, why: &'static str },
    /// One server works on a database at a time.
    #[error("another Skein works on this database: {holder}")]
    InUse { holder: String },
    #[error(transparent)]
    Schema(#[from] MigrateError),
}

/// A change set that met a deadlock or a broken connection is tried this often before its caller is told.
const ATTEMPTS: u32 = 5;

/// How long a server may take to let us in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a caller waits for one of the connections before it is told to come back.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where an attempt to apply a change set failed.
enum Failed {
    /// Nothing was written.
    Before(Fault),
    /// The server was asked to commit this, and what it answered, if anything, is the fault.
    AtCommit(Fault, Option<TransactionName>, Committed),
}

impl PostgresStore {
    /// Opens a migrated database with at most `connections` connections.
    ///
    /// The login must be bound by row-level security; see [`Self::check_role`].
    pub async fn open(url: &str, connections: usize) -> Result<Self, OpenError> {
        Self::with_hook(&configuration(url)?, connections, None).await
    }

    /// As [`Self::open`], as the only one that works on the database for as long as the tenure lives.
    pub async fn open_alone(url: &str, connections: usize) -> Result<(Self, Tenure), OpenError> {
        let config = configuration(url)?;
        let tenure = Tenure::take(&config).await?;
        let store = Self::with_hook(&config, connections, Some(tenure.hook())).await?;
        Ok((store, tenure))
    }

    async fn with_hook(
        config: &Config,
        connections: usize,
        hook: Option<Hook>,
    ) -> Result<Self, OpenError> {
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        // The connection that was used last has what it needs at hand.
        let mut pool = Pool::builder(Manager::from_config(config.clone(), NoTls, recycling))
            .max_size(connections)
            .queue_mode(QueueMode::Lifo)
            .post_create(Hook::async_fn(|client, _| {
                Box::pin(async move {
                    client.batch_execute(connection::BY_KEY).await.map_err(HookError::Backend)
                })
            }))
            .runtime(Runtime::Tokio1)
            .create_timeout(Some(CONNECT_TIMEOUT))
            .wait_timeout(Some(WAIT_TIMEOUT));
        if let Some(hook) = hook {
            pool = pool.post_create(hook);
        }
        let pool = pool.build().map_err(|error| OpenError::Unreachable(Box::new(error)))?;
        let store = Self { pool, commits: TaskTracker::new() };
        store.check_role().await?;
        migrate::verify_current(&*store.reached().await?).await?;
        Ok(store)
    }

    /// Refuses a login that is a superuser, has BYPASSRLS, or owns the tables or may become who does: row-level security
    /// does not bind such a role, or it could switch it off.
    pub async fn check_role(&self) -> Result<(), OpenError> {
        connection::refuse_unsafe_role(&self.reached().await?).await
    }

    /// Waits for commits that have begun, then closes every connection.
    pub async fn close(&self) {
        self.commits.close();
        self.commits.wait().await;
        self.pool.close();
    }

    async fn reached(&self) -> Result<Client, OpenError> {
        self.pool.get().await.map_err(|error| OpenError::Unreachable(Box::new(error)))
    }

    async fn client(&self) -> Result<Client, Fault> {
        Ok(self.pool.get().await?)
    }

    /// Tries again while it is certain that nothing was written.
    async fn apply(&self, scope: &Scope, changes: &ChangeSet) -> Result<Committed, StoreError> {
        let mut attempt = 1;
        loop {
            let (fault, may_repeat) = match self.apply_once(scope, changes).await {
                Ok(committed) => return Ok(committed),
                Err(Failed::Before(fault)) => {
                    let may_repeat = fault.may_be_repeated() || fault.is_broken_connection();
                    (fault, may_repeat)
                }
                // A server that refuses has undone the change set. One that does not answer is asked what it did.
                Err(Failed::AtCommit(fault, name, committed)) if fault.is_broken_connection() => {
                    match self.fate(scope, name, &committed).await {
                        Fate::Kept => return Ok(committed),
                        Fate::Undone => (fault, true),
                        Fate::Unknown => (fault, false),
                    }
                }
                Err(Failed::AtCommit(fault, ..)) => {
                    let may_repeat = fault.may_be_repeated();
                    (fault, may_repeat)
                }
            };
            if attempt == ATTEMPTS || !may_repeat {
                return Err(fault.into());
            }
            attempt += 1;
        }
    }

    async fn apply_once(&self, scope: &Scope, changes: &ChangeSet) -> Result<Committed, Failed> {
        let mut client = self.client().await.map_err(Failed::Before)?;
        let transaction = Transaction::writing(&mut client, scope.org);
        let (committed, rest) =
            apply::apply(&transaction, scope, changes).await.map_err(Failed::Before)?;
        match transaction.commit(rest).await {
            Ok(()) => Ok(committed),
            Err(fault) => Err(Failed::AtCommit(fault, transaction.name(), committed)),
        }
    }

    /// Runs a piece of work to its end even if nobody waits for it any more.
    async fn to_the_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.commits.spawn(work).await.map_err(|error| StoreError::Unavailable(Box::new(error)))?
    }
}

#[async_trait]
impl Store for PostgresStore {
    /// Applies the change set in one transaction, again on another connection if one breaks on the way.
    ///
    /// What is acknowledged is durable and was done once. When the connection breaks after the server was asked to
    /// commit and before it has answered, the server is asked for the transaction's fate as soon as it can be reached. If
    /// it stays away for too long, the caller is told [`StoreError::Unavailable`] although the change set may have been
    /// kept. It is never tried again then; a caller that repeats it with the same idempotency key learns what became of it.
    async fn commit(&self, scope: &Scope, changes: ChangeSet) -> Result<Committed, StoreError> {
        let (store, scope) = (self.clone(), scope.clone());
        self.to_the_end(async move { store.apply(&scope, &changes).await }).await
    }
}

fn configuration(url: &str) -> Result<Config, OpenError> {
    let mut config: Config = url.parse().map_err(OpenError::Url)?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    Ok(config)
}
