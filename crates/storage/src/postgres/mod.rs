//! The PostgreSQL engine: one transaction per change set, every row guarded by the org that the transaction is set to.

mod apply;
mod connection;
mod error;
pub mod migrate;
mod reads;
mod rows;

use async_trait::async_trait;
use deadpool_postgres::{Client, Manager, ManagerConfig, Pool, RecyclingMethod};
use skein_core::{
    model::Scope,
    ports::{ChangeSet, Committed, Store, StoreError},
};
use tokio_postgres::{Config, NoTls};
use tokio_util::task::TaskTracker;

use self::{connection::Transaction, error::Fault};
use crate::migrations::MigrateError;

/// A store in a PostgreSQL database. Clones share its connections.
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
    #[error(transparent)]
    Schema(#[from] MigrateError),
}

/// A change set that met a deadlock is tried this often before its caller is told.
const ATTEMPTS: u32 = 5;

impl PostgresStore {
    /// Opens a migrated database with at most `connections` connections.
    ///
    /// The login must be bound by row-level security: a superuser, the tables' owner and a role with BYPASSRLS are refused.
    pub async fn open(url: &str, connections: usize) -> Result<Self, OpenError> {
        let config: Config = url.parse().map_err(OpenError::Url)?;
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = Pool::builder(Manager::from_config(config, NoTls, recycling))
            .max_size(connections)
            .build()
            .map_err(|error| OpenError::Unreachable(Box::new(error)))?;
        let client = pool.get().await.map_err(|error| OpenError::Unreachable(Box::new(error)))?;
        connection::refuse_unsafe_role(&client).await?;
        migrate::verify_current(&client).await?;
        Ok(Self { pool, commits: TaskTracker::new() })
    }

    /// Waits for commits that have begun, then closes every connection.
    pub async fn close(&self) {
        self.commits.close();
        self.commits.wait().await;
        self.pool.close();
    }

    async fn client(&self) -> Result<Client, Fault> {
        Ok(self.pool.get().await?)
    }

    async fn apply(&self, scope: &Scope, changes: &ChangeSet) -> Result<Committed, StoreError> {
        let mut attempt = 1;
        loop {
            match self.apply_once(scope, changes).await {
                Err(fault) if attempt < ATTEMPTS && fault.may_be_repeated() => attempt += 1,
                result => return result.map_err(StoreError::from),
            }
        }
    }

    async fn apply_once(&self, scope: &Scope, changes: &ChangeSet) -> Result<Committed, Fault> {
        let mut client = self.client().await?;
        let transaction = Transaction::writing(&mut client, scope).await?;
        let committed = apply::apply(&transaction, scope, changes).await?;
        transaction.commit().await?;
        Ok(committed)
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
    async fn commit(&self, scope: &Scope, changes: ChangeSet) -> Result<Committed, StoreError> {
        let (store, scope) = (self.clone(), scope.clone());
        self.to_the_end(async move { store.apply(&scope, &changes).await }).await
    }
}
