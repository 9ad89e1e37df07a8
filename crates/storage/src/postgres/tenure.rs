//! One server works on a database at a time: at its start it ends the turns that it takes for cut off.
//!
//! Three advisory locks say who it is. They are held by sessions, so they end with them, however they end.
//!
//! - *Server*: exclusive, on a connection of its own. Whoever has it may work.
//! - *Work*: shared, on every connection of the pool. A new server waits until nobody has it before it looks at what its
//!   predecessor left: a commit that a killed server had sent may still be under way.
//! - *Instance*: with a random number, beside *Server*. A new connection of the pool asks for it, so a server that
//!   has lost its place writes nothing behind its successor's back.

use std::time::Duration;

use deadpool_postgres::{Hook, HookError};
use tokio::time::sleep;
use tokio_postgres::{
    Client, Config, Connection, NoTls, Socket, error::SqlState, tls::NoTlsStream,
};

use super::OpenError;

/// The first half of the keys of *Server* and *Work*, and that of *Instance*.
const SKEIN: i32 = 0x736b_6569;
const INSTANCE: i32 = 0x736b_656a;
const SERVER_KEY: i32 = 1;
const WORK_KEY: i32 = 2;

/// How long a start waits for a server that is just ending.
const SERVER_TIMEOUT: &str = "SET lock_timeout = '3s'";
/// How long a start waits for what a killed server has sent.
const WORK_TIMEOUT: &str = "SET lock_timeout = '30s'";

/// A client that is gone without a word is noticed in half a minute, not in hours.
const NOTICE_DEAD_CLIENTS: &str = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5;
    SET tcp_keepalives_count = 4";

/// Between attempts to take the place again after the database was away.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// The right to work on a database, held for as long as this lives.
pub struct Tenure {
    config: Config,
    instance: i32,
    line: Line,
}

/// Somebody else works on the database now; whatever this process still writes is not expected any more.
#[derive(Debug, thiserror::Error)]
#[error("another server has taken over the database")]
pub struct Displaced;

/// The connection that holds the locks, and what drives it.
struct Line {
    client: Client,
    connection: Connection<Socket, NoTlsStream>,
}

impl Tenure {
    /// Takes the place, and waits until nothing of a predecessor is under way.
    pub(super) async fn take(config: &Config) -> Result<Self, OpenError> {
        let mut config = config.clone();
        if config.get_application_name().is_none() {
            config.application_name("skein");
        }
        let mut line = Line::open(&config).await.map_err(unreachable)?;
        match line.drive(take).await.map_err(unreachable)? {
            Ok(instance) => Ok(Self { config, instance, line }),
            Err(holder) => Err(OpenError::InUse { holder }),
        }
    }

    /// Lets a connection into the pool only while this place is held.
    pub(super) fn hook(&self) -> Hook {
        let instance = self.instance;
        Hook::async_fn(move |client, _| {
            Box::pin(async move {
                client.batch_execute(NOTICE_DEAD_CLIENTS).await.map_err(HookError::Backend)?;
                // In this order: whoever has the first is waited for by a successor.
                let has_work =
                    ask(client, "SELECT pg_try_advisory_lock_shared($1, $2)", WORK).await;
                let held = has_work.map_err(HookError::Backend)?
                    && is_held(client, instance).await.map_err(HookError::Backend)?;
                match held {
                    true => Ok(()),
                    false => Err(HookError::message("the database is not this server's for now")),
                }
            })
        })
    }

    /// Keeps the place over restarts of the database, for as long as it is polled.
    pub async fn keep(mut self) -> Displaced {
        loop {
            if let Err(error) = (&mut self.line.connection).await {
                tracing::warn!(%error, "the connection that holds the database's lock broke");
            }
            match self.take_again().await {
                Some(line) => self.line = line,
                None => return Displaced,
            }
            tracing::info!("the database's lock is held again");
        }
    }

    /// `None` when somebody else has the place.
    async fn take_again(&self) -> Option<Line> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.try_again().await {
                Ok((Again::Taken, line)) => return Some(line),
                Ok((Again::Displaced, _)) => return None,
                Ok((Again::Lingering, _)) => {}
                Err(error) => tracing::debug!(%error, "the database is away"),
            }
            sleep(pause).await;
            pause = LAST_PAUSE.min(pause * 2);
        }
    }

    async fn try_again(&self) -> Result<(Again, Line), tokio_postgres::Error> {
        let mut line = Line::open(&self.config).await?;
        let again = line
            .drive(async |client| {
                client.batch_execute(NOTICE_DEAD_CLIENTS).await?;
                let take =
                    async || ask(client, "SELECT pg_try_advisory_lock($1, $2)", SERVER).await;
                if !take().await? {
                    // The database may not have noticed yet that the old connection is gone.
                    if is_held(client, self.instance).await? {
                        return Ok(Again::Lingering);
                    }
                    // It may have noticed between the two questions.
                    if !take().await? {
                        return Ok(Again::Displaced);
                    }
                }
                lock(client, (INSTANCE, self.instance)).await?;
                Ok(Again::Taken)
            })
            .await?;
        Ok((again, line))
    }
}

/// What became of an attempt to take the place again.
enum Again {
    Taken,
    /// The old connection still has it.
    Lingering,
    Displaced,
}

impl Line {
    async fn open(config: &Config) -> Result<Self, tokio_postgres::Error> {
        let (client, connection) = config.connect(NoTls).await?;
        Ok(Self { client, connection })
    }

    /// Does something over the connection, which is not driven by a task of its own.
    async fn drive<T>(
        &mut self,
        work: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, tokio_postgres::Error> {
        let mut work = std::pin::pin!(work(&self.client));
        tokio::select! {
            biased;
            done = &mut work => done,
            // Whatever waits for an answer is told by the connection's end.
            _ = &mut self.connection => work.await,
        }
    }
}

/// Everything that a start needs, and the number of this instance; or who has it instead.
async fn take(client: &Client) -> Result<Result<i32, String>, tokio_postgres::Error> {
    client.batch_execute(NOTICE_DEAD_CLIENTS).await?;
    for (timeout, key) in [(SERVER_TIMEOUT, SERVER), (WORK_TIMEOUT, WORK)] {
        client.batch_execute(timeout).await?;
        match lock(client, key).await {
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                return Ok(Err(holder(client, key).await?));
            }
            locked => locked?,
        }
    }
    // Only to see that it was free.
    ask(client, "SELECT pg_advisory_unlock($1, $2)", WORK).await?;
    let number = client.query_one("SELECT floor(random() * 2147483647)::int", &[]).await?;
    let instance = number.try_get(0)?;
    lock(client, (INSTANCE, instance)).await?;
    Ok(Ok(instance))
}

type Key = (i32, i32);
const SERVER: Key = (SKEIN, SERVER_KEY);
const WORK: Key = (SKEIN, WORK_KEY);

async fn lock(client: &Client, (class, object): Key) -> Result<(), tokio_postgres::Error> {
    client.execute("SELECT pg_advisory_lock($1, $2)", &[&class, &object]).await.map(drop)
}

async fn ask(
    client: &Client,
    sql: &str,
    (class, object): Key,
) -> Result<bool, tokio_postgres::Error> {
    client.query_one(sql, &[&class, &object]).await?.try_get(0)
}

const HELD: &str = "SELECT l.pid, a.usename::text, a.application_name, host(a.client_addr)
    FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND l.classid = $1::int::oid AND l.objid = $2::int::oid
      AND l.pid <> pg_backend_pid()
    LIMIT 1";

async fn is_held(client: &Client, instance: i32) -> Result<bool, tokio_postgres::Error> {
    Ok(client.query_opt(HELD, &[&INSTANCE, &instance]).await?.is_some())
}

/// Who has a lock, for people.
async fn holder(client: &Client, (class, object): Key) -> Result<String, tokio_postgres::Error> {
    let Some(row) = client.query_opt(HELD, &[&class, &object]).await? else {
        return Ok("somebody who has just gone".to_owned());
    };
    let text = |column| row.try_get::<_, Option<String>>(column);
    let application = text(2)?.filter(|name| !name.is_empty());
    Ok(format!(
        "{} as {} from {}, server process {}",
        application.as_deref().unwrap_or("somebody"),
        text(1)?.as_deref().unwrap_or("an unknown role"),
        text(3)?.as_deref().unwrap_or("a local socket"),
        row.try_get::<_, i32>(0)?,
    ))
}

fn unreachable(error: tokio_postgres::Error) -> OpenError {
    OpenError::Unreachable(Box::new(error))
}
