//! The engines that sessions can be kept in: one arm per URL scheme.

use std::{sync::Arc, time::Duration};

use skein_core::{model::SystemScope, ports::Storage};
use skein_storage::{
    postgres::{self, PostgresStore, Tenure},
    sqlite::{self, SqliteOptions, SqliteStore},
};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::{
    commands::migrate_failure,
    config::Store as Settings,
    failure::{Exit, Failure},
    home::Home,
    system::System,
};

/// The audit log is sealed at least this often.
const SEAL_EVERY: Duration = Duration::from_millis(500);
/// What is still open at the end may take this long.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// An open store.
#[derive(Clone)]
pub(crate) enum Engine {
    Sqlite(Arc<SqliteStore>),
    Postgres(PostgresStore),
}

/// What keeps others from working on the same store, for as long as it is held.
pub(crate) enum Place {
    /// The home's lock, which is held by whoever opens a store.
    Home,
    Database(Box<Tenure>),
}

impl Place {
    /// Resolves when the place is lost to somebody else, if that can be.
    pub(crate) async fn lost(self) -> Failure {
        match self {
            Self::Home => std::future::pending().await,
            Self::Database(tenure) => {
                let displaced = tenure.keep().await;
                Failure::new(Exit::Conflict, "this server ends at once").because(displaced).hint(
                    "unfinished turns are recovered by the server that works on the database now",
                )
            }
        }
    }
}

impl Engine {
    /// Opens what the settings name, alone. The file of the home is brought up to date; a PostgreSQL database must be.
    pub(crate) async fn open(home: &Home, settings: &Settings) -> Result<(Self, Place), Failure> {
        if settings.is_postgres() {
            let (store, tenure) = open_postgres(settings).await?;
            return Ok((Self::Postgres(store), Place::Database(Box::new(tenure))));
        }
        Ok((Self::Sqlite(open_sqlite(home).await?), Place::Home))
    }

    pub(crate) fn storage(&self) -> Arc<dyn Storage> {
        match self {
            Self::Sqlite(store) => Arc::clone(store) as Arc<dyn Storage>,
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// Chains audit rows for as long as it is polled. SQLite chains them as it commits.
    pub(crate) async fn keep_sealed(self) {
        let Self::Postgres(_) = self else { return };
        let storage = self.storage();
        let mut ticks = interval(SEAL_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            seal(storage.as_ref()).await;
        }
    }

    /// Makes everything durable that was promised, and leaves it tidy.
    pub(crate) async fn close(self) {
        match self {
            Self::Sqlite(store) => {
                if tokio::task::spawn_blocking(move || store.close()).await.is_err() {
                    tracing::error!("the store did not close as it should");
                }
            }
            Self::Postgres(store) => {
                let closing = async {
                    seal(&store).await;
                    store.close().await;
                };
                if timeout(CLOSE_TIMEOUT, closing).await.is_err() {
                    tracing::warn!("the database did not answer in time; its connections are cut");
                }
            }
        }
    }
}

async fn seal(storage: &dyn Storage) {
    if let Err(error) = storage.seal_audit(SystemScope::for_purpose("seal the audit log")).await {
        tracing::warn!(%error, "the audit log could not be sealed; it is tried again");
    }
}

async fn open_sqlite(home: &Home) -> Result<Arc<SqliteStore>, Failure> {
    let path = home.database_file();
    let opened = tokio::task::spawn_blocking(move || {
        SqliteStore::migrate_and_open(&path, SqliteOptions::default(), Arc::new(System))
    });
    let file = home.database_file();
    let cannot = || Failure::new(Exit::Unavailable, format!("cannot open {}", file.display()));
    match opened.await {
        Ok(Ok(store)) => Ok(Arc::new(store)),
        Ok(Err(sqlite::OpenError::Schema(error))) => Err(migrate_failure(error)),
        Ok(Err(error @ (sqlite::OpenError::Sqlite(_) | sqlite::OpenError::Threads(_)))) => {
            Err(cannot().because(error).hint("skein doctor looks for the reason"))
        }
        Err(panicked) => Err(cannot().because(panicked)),
    }
}

async fn open_postgres(settings: &Settings) -> Result<(PostgresStore, Tenure), Failure> {
    use postgres::OpenError;

    let opened = PostgresStore::open_alone(&settings.url, settings.connections).await;
    opened.map_err(|error| match error {
        OpenError::Schema(error) => migrate_failure(error),
        error @ OpenError::Url(_) => {
            Failure::new(Exit::Usage, "store.url is not a PostgreSQL address").because(error)
        }
        error @ OpenError::UnsafeRole { .. } => {
            Failure::new(Exit::Usage, "this database role cannot keep tenants apart")
                .because(error)
                .hint("give store.url a role of its own; the owner belongs in store.migrate_url")
        }
        error @ OpenError::InUse { .. } => {
            Failure::new(Exit::Conflict, "the database is in use").because(error).hint(
                "stop the other server first; SKEIN_URL and SKEIN_TOKEN let commands use it from here",
            )
        }
        error @ OpenError::Unreachable(_) => {
            Failure::new(Exit::Unavailable, "the database cannot be reached").because(error)
        }
    })
}
