//! What became of a commit that the server did not answer.

use std::time::Duration;

use skein_core::{
    model::{Scope, TurnId},
    ports::Committed,
};
use tokio::time::{Instant, sleep};
use tokio_postgres::error::SqlState;

use super::{
    PostgresStore,
    connection::{Transaction, TransactionName},
    error::Fault,
    rows::{Columns, int},
};

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
    /// Asks until the server answers.
    pub(super) async fn fate(
        &self,
        scope: &Scope,
        name: Option<TransactionName>,
        committed: &Committed,
    ) -> Fate {
        let Some(name) = name else { return Fate::Unknown };
        let deadline = Instant::now() + PATIENCE;
        let mut pause = FIRST_PAUSE;
        while Instant::now() < deadline {
            match self.ask_for_fate(scope, &name, committed).await {
                Ok(Some(fate)) => return fate,
                Ok(None) | Err(Fault::Pool(_)) => {}
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
    ///
    /// A crash forgets names that had not reached the disk and gives them again. So a name that is not known, or that was
    /// undone, says that the transaction is; one that was committed may be another's, and then the log is looked at.
    async fn ask_for_fate(
        &self,
        scope: &Scope,
        name: &TransactionName,
        committed: &Committed,
    ) -> Result<Option<Fate>, Fault> {
        let mut client = self.client().await?;
        let asked = client.query_one("SELECT pg_xact_status($1::text::xid8)", &[&name.0]).await;
        let status: Option<String> = match asked {
            Ok(row) => row.try_get(0)?,
            Err(error) if error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE) => {
                return Ok(Some(Fate::Undone));
            }
            Err(error) => return Err(error.into()),
        };
        match status.as_deref() {
            Some("aborted") => return Ok(Some(Fate::Undone)),
            Some("in progress") => return Ok(None),
            // Committed, or too long ago for the server to remember.
            _ => {}
        }
        let Some(event) = committed.events.first() else { return Ok(Some(Fate::Unknown)) };
        let transaction = Transaction::reading(&mut client, scope);
        let row = transaction
            .query_opt(
                "SELECT turn_id, at FROM events WHERE org_id = $1 AND log_id = $2 AND seq = $3",
                &[scope.org.as_uuid(), event.log.as_uuid(), &int(event.seq)],
            )
            .await?;
        let Some(row) = row else { return Ok(Some(Fate::Undone)) };
        let row = Columns::new("event", &row);
        let found = (row.opt_id("turn_id", TurnId::from_uuid)?, row.time("at")?);
        // Whatever has taken the event's place after a crash is of another moment.
        Ok(Some(if found == (event.turn, event.at) { Fate::Kept } else { Fate::Undone }))
    }
}
