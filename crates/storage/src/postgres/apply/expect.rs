//! What must still be true.

use skein_core::{
    model::{LogId, SessionId, TurnId, TurnStatus},
    ports::{Conflict, Expectation, LimitKind},
};

use super::{
    super::{error::Fault, rows::Columns},
    Applying,
};

/// How far a turn is.
pub(super) struct TurnProgress {
    pub(super) status: TurnStatus,
    pub(super) is_started: bool,
}

/// The turns of a log that have no outcome.
struct Pending {
    all: u64,
    running: u64,
}

impl Applying<'_> {
    pub(super) async fn check(&mut self, expectation: &Expectation) -> Result<(), Fault> {
        match expectation {
            Expectation::SessionRevision { session, revision } => {
                self.expect_revision(*session, *revision).await
            }
            Expectation::TurnPending { turn } => {
                self.pending_turn(*turn).await?;
                Ok(())
            }
            Expectation::TurnQueued { turn } => {
                if self.pending_turn(*turn).await?.is_started {
                    return Err(Conflict::TurnStarted(*turn).into());
                }
                Ok(())
            }
            Expectation::LogIdle { log } => match self.pending(*log).await?.all {
                0 => Ok(()),
                _ => Err(Conflict::TurnRunning.into()),
            },
            Expectation::NoTurnRunning { log } => match self.pending(*log).await?.running {
                0 => Ok(()),
                _ => Err(Conflict::TurnRunning.into()),
            },
            Expectation::PendingTurnsBelow { log, below } => {
                if self.pending(*log).await?.all >= u64::from(*below) {
                    return Err(Conflict::LimitReached(LimitKind::QueuedTurns).into());
                }
                Ok(())
            }
        }
    }

    /// A turn that has no outcome yet. Its log is locked, so this stays true.
    pub(super) async fn pending_turn(&self, turn: TurnId) -> Result<TurnProgress, Fault> {
        let row = self
            .transaction
            .query_opt(
                "SELECT status, started_at IS NOT NULL AS is_started FROM turns
                 WHERE org_id = $1 AND id = $2",
                &[self.org(), turn.as_uuid()],
            )
            .await?
            .ok_or(Conflict::Missing("turn"))?;
        let row = Columns::new("turn", &row);
        let progress =
            TurnProgress { status: row.word("status")?, is_started: row.get("is_started")? };
        match progress.status {
            TurnStatus::Pending => Ok(progress),
            TurnStatus::Completed | TurnStatus::Failed => Err(Conflict::TurnFinished(turn).into()),
        }
    }

    async fn expect_revision(&self, session: SessionId, revision: u64) -> Result<(), Fault> {
        let row = self
            .transaction
            .query_opt(
                "SELECT revision FROM sessions WHERE org_id = $1 AND id = $2 FOR NO KEY UPDATE",
                &[self.org(), session.as_uuid()],
            )
            .await?
            .ok_or(Conflict::Missing("session"))?;
        if Columns::new("session", &row).counter("revision")? != revision {
            return Err(Conflict::SessionChanged(session).into());
        }
        Ok(())
    }

    async fn pending(&mut self, log: LogId) -> Result<Pending, Fault> {
        self.log(log)?;
        let rows = self
            .transaction
            .query(
                "SELECT count(*) AS pending, count(started_at) AS running FROM turns
                 WHERE org_id = $1 AND log_id = $2 AND status = 'pending'",
                &[self.org(), log.as_uuid()],
            )
            .await?;
        let row = rows.first().ok_or(Conflict::Missing("log"))?;
        let row = Columns::new("turn", row);
        Ok(Pending { all: row.counter("pending")?, running: row.counter("running")? })
    }
}
