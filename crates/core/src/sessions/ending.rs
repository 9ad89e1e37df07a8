//! The end of a session, whoever wants it: its state, its turns, its process, and what people read about it.

use super::{
    Busy, Decision, Sessions,
    changes::{change, event, save},
};
use crate::{
    Error,
    model::{
        EventBody, FailureCode, MessageCompleted, MessageContent, MessageId, Role, Scope, Session,
        SessionId, SessionStateName, Timestamp, Turn, TurnState,
    },
    orchestrator::outcome,
    ports::{ChangeSet, Expectation, RuntimeFailure, SessionRecord, TurnPage},
};

/// How a session is to end.
pub(super) enum Ending {
    Complete {
        busy: Busy,
        reason: Option<String>,
    },
    Cancel {
        reason: Option<String>,
    },
    /// The agent cannot go on.
    Fail {
        failure: RuntimeFailure,
    },
}

impl Sessions {
    pub(super) async fn end(
        &self,
        scope: &Scope,
        session: SessionId,
        ending: &Ending,
    ) -> Result<SessionRecord, Error> {
        let decide = |record: SessionRecord| -> Decision<'_> {
            Box::pin(async move {
                if record.session.state.name().is_final() {
                    return ending.accepts_final(&record.session);
                }
                let (busy, failure) = ending.treatment();
                self.clear_running(scope, &record, busy, &failure).await?;
                let queued = self.platform.store.list_pending_turns(scope, session).await?;
                if busy == Busy::Refuse && !queued.is_empty() {
                    return Err(Error::TurnInProgress { turn: queued.first().map(|turn| turn.id) });
                }
                let notice = self.notice(scope, session, ending, &queued).await?;
                let ended = Ended { record: &record, ending, notice };
                let (changes, failed) = self.ending(&ended, queued, &failure)?;
                let committed = self.platform.commit(scope, changes).await?;
                self.hosting.vacate(session);
                for turn in failed {
                    self.orchestrator.tell_waiting(turn, &committed);
                }
                Ok(())
            })
        };
        let ended = self.while_queue_waits(scope, session, decide).await?;
        self.hosting.release(&ended.session);
        Ok(ended)
    }

    /// The message that tells people, unless the turn that ran has told them the same.
    async fn notice(
        &self,
        scope: &Scope,
        session: SessionId,
        ending: &Ending,
        queued: &[Turn],
    ) -> Result<Option<MessageContent>, Error> {
        let Ending::Fail { failure } = ending else { return Ok(ending.notice()) };
        let page = queued.first().map_or(TurnPage::Last, |turn| TurnPage::Before(turn.number));
        let turns = self.platform.store.list_turns(scope, session, page, 1).await?;
        let is_told = turns.iter().any(|record| match &record.turn.state {
            TurnState::Failed(told) => {
                told.code == failure.code && told.errors.contains(&failure.message)
            }
            TurnState::Pending | TurnState::Completed(_) => false,
        });
        Ok(ending.notice().filter(|_| !is_told))
    }

    /// Interrupts the running turn and waits for its end, or refuses while one runs.
    pub(super) async fn clear_running(
        &self,
        scope: &Scope,
        record: &SessionRecord,
        busy: Busy,
        failure: &RuntimeFailure,
    ) -> Result<(), Error> {
        let pending = self.platform.store.list_pending_turns(scope, record.session.id).await?;
        let Some(running) = pending.iter().find(|turn| turn.started_at.is_some()) else {
            return Ok(());
        };
        match busy {
            Busy::Refuse => Err(Error::TurnInProgress { turn: Some(running.id) }),
            Busy::Interrupt => self.orchestrator.interrupt(scope, running, failure.clone()).await,
        }
    }

    /// State, task, queued turns and the message that tells people, all in one change set.
    fn ending(
        &self,
        Ended { record, ending, notice }: &Ended<'_>,
        queued: Vec<Turn>,
        failure: &RuntimeFailure,
    ) -> Result<(ChangeSet, Vec<Turn>), Error> {
        let at = self.platform.now();
        let ended = ending.apply(record.session.clone(), at)?;
        let mut changes = save(&record.session, &ended, at);
        let below = u32::try_from(queued.len()).unwrap_or(u32::MAX).saturating_add(1);
        changes.expects.push(Expectation::PendingTurnsBelow { log: ended.log, below });
        changes.expects.push(Expectation::NoTurnRunning { log: ended.log });
        let mut failed = Vec::with_capacity(queued.len());
        for turn in queued {
            failed.push(outcome::fail_queued(
                &self.platform,
                &mut changes,
                turn,
                failure.clone(),
                at,
            )?);
        }
        if let Some(content) = notice.clone() {
            let message_id = MessageId::from_uuid(self.platform.new_id());
            let message = MessageCompleted { message_id, role: Role::System, content };
            changes.events.push(event(&ended, at, EventBody::MessageCompleted(message)));
        }
        let body = match ending {
            Ending::Complete { .. } => EventBody::SessionCompleted(change(&ended)),
            Ending::Cancel { .. } => EventBody::SessionCancelled(change(&ended)),
            Ending::Fail { .. } => EventBody::SessionFailed(change(&ended)),
        };
        changes.events.push(event(&ended, at, body));
        Ok((changes, failed))
    }
}

/// A session that is about to end.
struct Ended<'a> {
    record: &'a SessionRecord,
    ending: &'a Ending,
    notice: Option<MessageContent>,
}

impl Ending {
    /// What becomes of turns that have not ended.
    fn treatment(&self) -> (Busy, RuntimeFailure) {
        match self {
            Self::Complete { busy, .. } => (*busy, outcome::reason_for(FailureCode::Interrupted)),
            Self::Cancel { .. } => (Busy::Interrupt, outcome::reason_for(FailureCode::Cancelled)),
            Self::Fail { failure } => (Busy::Interrupt, failure.clone()),
        }
    }

    fn apply(&self, session: Session, at: Timestamp) -> Result<Session, Error> {
        let mut ended = match self {
            Self::Complete { reason, .. } => session.complete(reason.clone(), at)?,
            Self::Cancel { reason } => session.cancel(reason.clone(), at)?,
            Self::Fail { failure } => session.fail(failure.code.as_str().to_owned(), at)?,
        };
        if let Self::Complete { reason: Some(reason), .. } = self {
            ended.profile.metadata.insert("reason".to_owned(), reason.as_str().into());
        }
        Ok(ended)
    }

    /// Completing a completed session and cancelling any final one are answered with the session as it is.
    fn accepts_final(&self, session: &Session) -> Result<(), Error> {
        let state = session.state.name();
        match self {
            Self::Complete { .. } if state != SessionStateName::Completed => {
                Err(Error::SessionNotActive { state, wanted: "be completed" })
            }
            Self::Complete { .. } | Self::Cancel { .. } | Self::Fail { .. } => Ok(()),
        }
    }

    /// What people read about the end, where there is something to say.
    fn notice(&self) -> Option<MessageContent> {
        let reason = match self {
            Self::Complete { reason, .. } => reason.clone()?,
            Self::Cancel { reason } => reason.clone().unwrap_or_else(|| "cancelled".to_owned()),
            Self::Fail { failure } => {
                let code = failure.code.as_str().to_owned();
                return Some(MessageContent::Error { message: failure.message.clone(), code });
            }
        };
        Some(MessageContent::Status { reason })
    }
}
