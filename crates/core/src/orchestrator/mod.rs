//! Takes an instruction from acceptance to its outcome.
//!
//! `accept` makes the turn durable and answers; `run` drives the agent and records what it does. Nothing
//! else starts or finishes a turn.

mod accept;
mod budget;
mod bundle;
mod growing;
pub(crate) mod outcome;
mod paced;
mod pieces;
mod planning;
mod questions;
mod queue;
mod raw;
mod rehydrate;
mod retrieving;
mod run;
mod running;
mod said;
mod take_up;
mod texts;
mod transcript;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio_util::task::TaskTracker;
use tracing::instrument;

use crate::{
    Error,
    agents::Agents,
    hosting::Hosting,
    intake::{ExecuteCommand, OnBusy, Rebind, Target},
    model::{FailureCode, FileBundle, Mode, Scope, SessionId, Turn, TurnId},
    payloads::StoredPayload,
    platform::{IdempotencyKey, Platform},
    policy::{
        access::Action,
        active_files::{self, ActiveFile},
        text::{check_instruction, check_optional},
    },
    ports::{ChangeSet, Committed, Expectation, RuntimeFailure, TurnRecord},
};

pub use accept::Accepted;
use running::Running;
pub use running::{Finished, QueueHold, Waiting};

/// Runs turns.
pub struct Orchestrator {
    platform: Arc<Platform>,
    agents: Arc<Agents>,
    hosting: Arc<Hosting>,
    running: Running,
    totals: Totals,
    /// Every run is owned here, so that a drain can wait for it.
    tasks: TaskTracker,
}

/// Bytes that went to agents since the start, and bytes that did not have to.
#[derive(Debug, Default)]
struct Totals {
    sent: AtomicU64,
    saved: AtomicU64,
}

/// What a rerun changes of the turn that it repeats.
#[derive(Debug, Clone, Default)]
pub struct Rerun {
    pub instruction: Option<String>,
    pub active_files: Vec<ActiveFile>,
    pub workspace_id: Option<String>,
    pub mode: Option<Mode>,
    pub on_busy: OnBusy,
}

/// A finished turn as a caller of `execute` sees it.
#[derive(Debug, Clone)]
pub struct Executed {
    pub session: SessionId,
    pub turn: Turn,
    /// The whole answer, when there is one.
    pub answer: Option<AnswerText>,
    /// In edit mode: the files that the agent wants written.
    pub bundle: Option<Arc<FileBundle>>,
    pub replayed: bool,
}

impl Executed {
    /// The answer, unless it is too long to be held.
    pub fn short_answer(&self) -> Option<&str> {
        match &self.answer {
            Some(AnswerText::Here(text)) => Some(text),
            Some(AnswerText::Stored(_)) | None => None,
        }
    }
}

/// The text of an answer.
#[derive(Debug, Clone)]
pub enum AnswerText {
    Here(Arc<str>),
    /// Too long to be held for everyone who waits.
    Stored(StoredPayload),
}

impl Orchestrator {
    pub fn new(
        platform: Arc<Platform>,
        agents: Arc<Agents>,
        hosting: Arc<Hosting>,
        tasks: TaskTracker,
    ) -> Arc<Self> {
        let (running, totals) = (Running::default(), Totals::default());
        Arc::new(Self { platform, agents, hosting, running, totals, tasks })
    }

    /// Runs the instruction of an earlier turn again, as a new turn. The old one is untouched.
    #[instrument(skip_all, fields(session.id = %session, turn.id = %turn))]
    pub async fn rerun(
        self: &Arc<Self>,
        scope: &Scope,
        (session, turn): (SessionId, TurnId),
        rerun: Rerun,
        key: Option<&IdempotencyKey>,
    ) -> Result<Accepted, Error> {
        let limits = &self.platform.limits;
        check_optional("workspaceId", rerun.workspace_id.as_deref(), limits.field_bytes)?;
        let files = active_files::check(rerun.active_files, limits.active_files)?;
        let old = self.turn(scope, session, turn, Action::RunTurn).await?.turn;
        let instruction = match rerun.instruction {
            Some(changed) => {
                check_instruction(&changed, limits.instruction_bytes)?;
                changed
            }
            None => self.instruction_of(scope, &old).await?,
        };
        let command = ExecuteCommand {
            target: Target::Session(session, Rebind::default()),
            instruction,
            mode: rerun.mode.unwrap_or(old.request.mode),
            // What the old turn's contexts chose is chosen anew.
            model: old.request.asked.model,
            temperature: old.request.asked.temperature,
            workspace_id: rerun.workspace_id.or(old.request.workspace_id),
            repo: old.request.repo,
            language: old.request.language,
            scope_paths: old.request.scope_paths,
            files,
            on_busy: rerun.on_busy,
            rerun_of: Some(turn),
        };
        self.accept(scope, command, key).await
    }

    /// Ends a pending turn; it fails as `cancelled`.
    #[instrument(skip_all, fields(session.id = %session, turn.id = %turn))]
    pub async fn cancel_turn(
        self: &Arc<Self>,
        scope: &Scope,
        session: SessionId,
        turn: TurnId,
    ) -> Result<TurnRecord, Error> {
        let found = self.turn(scope, session, turn, Action::RunTurn).await?.turn;
        if found.status_is_final() {
            return Err(Error::TurnAlreadyFinished { turn });
        }
        if found.is_queued() {
            let reason = outcome::reason_for(FailureCode::Cancelled);
            match self.fail_waiting(scope, found, reason).await {
                Ok(()) => {}
                // It started in the meantime.
                Err(error) if error.is_lost_race() => {
                    let started = self.turn(scope, session, turn, Action::RunTurn).await?.turn;
                    let cause = outcome::reason_for(FailureCode::Cancelled);
                    self.interrupt(scope, &started, cause).await?;
                }
                Err(error) => return Err(error),
            }
        } else {
            self.interrupt(scope, &found, outcome::reason_for(FailureCode::Cancelled)).await?;
        }
        self.turn(scope, session, turn, Action::Read).await
    }

    /// Ends a turn that has started, and waits until its outcome is durable.
    pub(crate) async fn interrupt(
        self: &Arc<Self>,
        scope: &Scope,
        turn: &Turn,
        cause: RuntimeFailure,
    ) -> Result<(), Error> {
        if self.running.stop(turn.id, cause.clone()).await? {
            return Ok(());
        }
        let session = turn.request.conversation;
        let current = self.platform.store.find_turn(scope, session, turn.id).await?;
        let Some(turn) = current.map(|record| record.turn).filter(|turn| !turn.status_is_final())
        else {
            return Ok(());
        };
        let orphan = outcome::Orphan { turn, response_id: None };
        let (failed, committed) =
            outcome::fail_orphan(&self.platform, scope, session, orphan, cause).await?;
        self.tell_waiting(failed, &committed);
        self.start_next(scope, session).await;
        Ok(())
    }

    /// Keeps queued turns of a session from starting for as long as the hold lives.
    pub(crate) fn hold_queue(&self, session: SessionId) -> QueueHold {
        self.running.hold(session)
    }

    pub(crate) fn hosting(&self) -> &Arc<Hosting> {
        &self.hosting
    }

    pub(crate) fn platform(&self) -> &Arc<Platform> {
        &self.platform
    }

    /// Bytes sent to agents and bytes saved, since the start.
    pub fn bytes_sent_and_saved(&self) -> (u64, u64) {
        let Totals { sent, saved } = &self.totals;
        (sent.load(Ordering::Relaxed), saved.load(Ordering::Relaxed))
    }

    fn count(&self, turn: &Turn) {
        if let Some(plan) = &turn.plan {
            self.totals.sent.fetch_add(plan.sent.bytes, Ordering::Relaxed);
            self.totals.saved.fetch_add(plan.saved.bytes, Ordering::Relaxed);
        }
    }

    /// No new turns from now on; waits for the running ones. Whatever is left is recovered at the next start.
    pub async fn drain(&self) {
        self.running.close();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Refuses new turns at once, without waiting.
    pub fn stop_accepting(&self) {
        self.running.close();
    }

    pub(crate) async fn turn(
        &self,
        scope: &Scope,
        session: SessionId,
        turn: TurnId,
        action: Action,
    ) -> Result<TurnRecord, Error> {
        self.platform.session_for(scope, session, action).await?;
        let found = self.platform.store.find_turn(scope, session, turn).await?;
        found.ok_or(Error::NotFound { entity: "turn" })
    }

    async fn instruction_of(&self, scope: &Scope, turn: &Turn) -> Result<String, Error> {
        let body = self.platform.store.payload_body(scope, turn.request.instruction).await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Ends a turn that has not started.
    async fn fail_waiting(
        &self,
        scope: &Scope,
        turn: Turn,
        reason: RuntimeFailure,
    ) -> Result<(), Error> {
        let at = self.platform.now();
        let expects = vec![Expectation::TurnQueued { turn: turn.id }];
        let mut changes = ChangeSet { expects, ..ChangeSet::default() };
        let failed = outcome::fail_queued(&self.platform, &mut changes, turn, reason, at)?;
        let committed = self.platform.commit(scope, changes).await?;
        self.tell_waiting(failed, &committed);
        Ok(())
    }

    /// Tells whoever waits for a turn that it has ended without running.
    pub(crate) fn tell_waiting(&self, turn: Turn, committed: &Committed) {
        let last = committed.events.iter().rfind(|event| event.turn == Some(turn.id));
        let last_seq = last.map_or(0, |event| event.seq);
        self.running.resolve(turn.id, Finished { last_seq, ..Finished::without_answer(turn) });
    }
}
