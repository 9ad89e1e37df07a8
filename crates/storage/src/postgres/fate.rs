//! What became of a commit that the server did not answer.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{PostgresStore, connection::TransactionName, error::Fault};

/// How long the server may stay away before its callers are told that nobody knows.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between questions.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Kept,
    Undone,
    Unknown,
}

impl PostgresStore {
    /// Asks until the server answers. A crash ends what was not committed, and the server knows that after it.
    pub(super) async fn fate(&self, name: Option<TransactionName>) -> Fate {
        let Some(name) = name else { return Fate::Unknown };
        let deadline = Instant::now() + PATIENCE;
        let mut pause = FIRST_PAUSE;
        while Instant::now() < deadline {
            match self.ask_for_fate(&name).await {
                Ok(Some(fate)) => return fate,
                Ok(None) => {}
                Err(Fault::Pool(_)) => {}
                Err(fault) if fault.is_broken_connection() => {}
                Err(fault) => {
                    tracing::error!(?fault, transaction = name.0, "a commit has no known outcome");
                    return Fate::Unknown;
                }
            }
            sleep(pause).await;
            pause = LAST_PAUSE.min(pause * 2);
        }
        tracing::error!(
            transaction = name.0,
            "the database stays away; a commit has no known outcome"
        );
        Fate::Unknown
    }

    /// `None` while the server is still at it.
    async fn ask_for_fate(&self, name: &TransactionName) -> Result<Option<Fate>, Fault> {
        let client = self.client().await?;
        let row = client.query_one("SELECT pg_xact_status($1::text::xid8)", &[&name.0]).await?;
        let status: Option<String> = row.try_get(0)?;
        Ok(match status.as_deref() {
            Some("committed") => Some(Fate::Kept),
            Some("aborted") => Some(Fate::Undone),
            Some(_) => None,
            // Too long ago for the server to remember.
            None => Some(Fate::Unknown),
        })
    }
}
