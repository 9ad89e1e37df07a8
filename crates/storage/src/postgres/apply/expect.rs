//! What must still be true.

use skein_core::{
    model::{LogId, TurnId, TurnStatus},
    ports::{Conflict, Expectation, LimitKind},
};

use super::{
    super::error::Fault,
    Applying,
    facts::{Pending, TurnProgress},
};

impl Applying<'_> {
    pub(super) fn check(&mut self, expectation: &Expectation) -> Result<(), Fault> {
        match expectation {
            Expectation::SessionRevision { session, revision } => {
                match self.facts.revisions.get(session) {
                    Some(found) if found == revision => Ok(()),
                    Some(_) => Err(Conflict::SessionChanged(*session).into()),
                    None => Err(Conflict::Missing("session").into()),
                }
            }
            Expectation::TurnPending { turn } => {
                self.pending_turn(*turn)?;
                Ok(())
            }
            Expectation::TurnQueued { turn } => {
                if self.pending_turn(*turn)?.is_started {
                    return Err(Conflict::TurnStarted(*turn).into());
                }
                Ok(())
            }
            Expectation::LogIdle { log } => match self.pending(*log)?.all {
                0 => Ok(()),
                _ => Err(Conflict::TurnRunning.into()),
            },
            Expectation::NoTurnRunning { log } => match self.pending(*log)?.running {
                0 => Ok(()),
                _ => Err(Conflict::TurnRunning.into()),
            },
            Expectation::PendingTurnsBelow { log, below } => {
                if self.pending(*log)?.all >= u64::from(*below) {
                    return Err(Conflict::LimitReached(LimitKind::QueuedTurns).into());
                }
                Ok(())
            }
        }
    }

    /// A turn that has no outcome yet. Its log is locked, so this stays true.
    pub(super) fn pending_turn(&mut self, turn: TurnId) -> Result<&mut TurnProgress, Fault> {
        let progress = self.facts.turns.get_mut(&turn).ok_or(Conflict::Missing("turn"))?;
        match progress.status {
            TurnStatus::Pending => Ok(progress),
            TurnStatus::Completed | TurnStatus::Failed => Err(Conflict::TurnFinished(turn).into()),
        }
    }

    fn pending(&mut self, log: LogId) -> Result<Pending, Fault> {
        self.log(log)?;
        Ok(self.facts.pending.get(&log).copied().unwrap_or_default())
    }
}
