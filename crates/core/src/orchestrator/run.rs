//! From a durable turn to its outcome: drives the agent, writes what it does, and ends the turn.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::BoxStream};
use tokio::time::Instant;
use tracing::{Instrument, error, info_span, warn};

use super::{
    Orchestrator, outcome,
    running::{Control, Finished},
    transcript::{Ready, Transcript},
};
use crate::{
    Error,
    model::{FailureCode, Scope, SessionId, Turn, TurnId},
    payloads,
    platform::RACE_ATTEMPTS,
    policy::pace::wait_before_write,
    ports::{
        AgentOutcome, AgentRuntime, AgentUpdate, ChangeSet, Committed, Conflict, Expectation,
        RunRequest, RuntimeFailure, StoreError, Write,
    },
};

/// While this much waits behind a write, the agent is not listened to.
const MAX_WAITING_BYTES: usize = 1024 * 1024;
const MAX_WAITING_EVENTS: usize = 4096;

/// A turn that is stopped does not wait longer than this for a write; its end carries the whole text.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// Between attempts to store an outcome that the store does not take.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(5);
/// Before a queued turn that the store did not take is started again.
const START_RETRY: Duration = Duration::from_secs(1);

/// A started turn with all that its run needs.
pub(super) struct Job {
    /// Skein's own, on behalf of whoever gave the instruction: it outlives the caller's token.
    pub(super) scope: Scope,
    pub(super) session: SessionId,
    pub(super) turn: Turn,
    pub(super) instruction: Arc<str>,
    /// None when the session's agent is no longer configured.
    pub(super) runtime: Option<Arc<dyn AgentRuntime>>,
    pub(super) control: Arc<Control>,
}

/// How the agent's part of a turn ended.
pub(super) enum AgentEnd {
    Answered,
    Failed(RuntimeFailure),
    /// The turn has its outcome already; there is nothing left to record.
    EndedElsewhere,
}

impl Orchestrator {
    /// Sets a turn going in the background.
    pub(super) fn spawn(self: &Arc<Self>, job: Job) {
        let orchestrator = Arc::clone(self);
        let span = info_span!("turn", session.id = %job.session, turn.id = %job.turn.id);
        self.tasks.spawn(async move { orchestrator.run(job).await }.instrument(span));
    }

    /// Runs a turn to its end, then starts the one that waits behind it.
    pub(super) async fn run(self: &Arc<Self>, job: Job) {
        let (turn, session, scope) = (job.turn.id, job.session, job.scope.clone());
        match self.drive_and_record(job).await {
            Ok(Some(finished)) => self.running.resolve(turn, finished),
            Ok(None) => self.tell_stored_outcome(&scope, session, turn).await,
            Err(error) => {
                error!(%error, "the outcome of a turn could not be stored");
                self.running.forget(turn);
            }
        }
        self.running.leave(turn);
        self.start_next(&scope, session).await;
    }

    /// Somebody else ended the turn: whoever waits here gets what is stored.
    async fn tell_stored_outcome(&self, scope: &Scope, session: SessionId, turn: TurnId) {
        match self.platform.store.find_turn(scope, session, turn).await {
            Ok(Some(record)) => {
                let finished = Finished { turn: record.turn, answer: None, last_seq: 0 };
                self.running.resolve(turn, finished);
            }
            Ok(None) | Err(_) => self.running.forget(turn),
        }
    }

    async fn drive_and_record(&self, job: Job) -> Result<Option<Finished>, Error> {
        let coalescing = job.runtime.as_ref().map(|runtime| runtime.coalescing());
        let mut transcript = Transcript::new(
            Arc::clone(&self.platform),
            job.turn.clone(),
            coalescing.unwrap_or(crate::ports::Coalescing::Gather),
        );
        // A bug in a runtime must not leave its turn pending for ever.
        let driven = AssertUnwindSafe(self.drive(&job, &mut transcript)).catch_unwind().await;
        let end = driven.unwrap_or_else(|_| {
            AgentEnd::Failed(RuntimeFailure {
                code: FailureCode::AgentProtocolError,
                message: "the agent's runtime failed unexpectedly".to_owned(),
            })
        });
        let outcome = match end {
            AgentEnd::Answered => Ok(()),
            AgentEnd::Failed(failure) => Err(failure),
            AgentEnd::EndedElsewhere => return Ok(None),
        };
        self.record(job, transcript, outcome).await
    }

    /// Listens to the agent and writes what it does, at the pace of [`wait_before_write`].
    async fn drive(&self, job: &Job, transcript: &mut Transcript) -> AgentEnd {
        let Some(mut updates) = start(job) else {
            return AgentEnd::Failed(RuntimeFailure {
                code: FailureCode::AgentUnavailable,
                message: "this session's agent is no longer configured".to_owned(),
            });
        };
        let mut writer = PacedWriter::default();
        loop {
            let room = transcript.unwritten_bytes() < MAX_WAITING_BYTES
                && transcript.ready_events() < MAX_WAITING_EVENTS;
            let write_at = match writer.due(transcript) {
                // Before the agent is asked for more: whoever reads along sees the first text at once.
                Some(at) if at <= Instant::now() => {
                    writer.begin(self.write(job, transcript.take()));
                    None
                }
                later => later,
            };
            tokio::select! {
                biased;
                () = job.control.stop.cancelled() => {
                    drop(tokio::time::timeout(LAST_WRITE, writer.settle()).await);
                    let code = job.control.cause.get().copied();
                    let code = code.unwrap_or(FailureCode::Interrupted);
                    return AgentEnd::Failed(outcome::reason_for(code));
                }
                written = writer.written(), if writer.is_writing() => {
                    if ended_elsewhere(&written) {
                        return AgentEnd::EndedElsewhere;
                    }
                }
                update = updates.next(), if room => {
                    if let Some(end) = take_in(update, &mut updates, transcript) {
                        writer.settle().await;
                        return end;
                    }
                }
                () = sleep_until(write_at), if write_at.is_some() => {
                    writer.begin(self.write(job, transcript.take()));
                }
            }
        }
    }

    /// Writes events in the middle of a turn. If the store does not take them now, it is tried again;
    /// meanwhile what the agent says piles up to a limit, and then the agent waits.
    fn write<'a>(&'a self, job: &'a Job, ready: Ready) -> BoxFuture<'a, Result<Committed, Error>> {
        let write = async move {
            let mut pause = FIRST_RETRY;
            loop {
                match self.try_write(job, &ready).await {
                    Err(Error::Store(error @ (StoreError::Full | StoreError::Unavailable(_)))) => {
                        warn!(%error, "the store does not take events now; trying again");
                        self.running.resolve_failed(job.turn.id, error);
                        tokio::time::sleep(pause).await;
                        pause = LAST_RETRY.min(pause * 2);
                    }
                    written => return written,
                }
            }
        };
        Box::pin(write)
    }

    async fn try_write(&self, job: &Job, ready: &Ready) -> Result<Committed, Error> {
        let mut changes = ChangeSet {
            expects: vec![Expectation::TurnPending { turn: job.turn.id }],
            events: ready.events.clone(),
            ..ChangeSet::default()
        };
        for (id, text) in &ready.payloads {
            let payload =
                payloads::stage(&self.platform, &job.scope, job.turn.log, *id, text.clone())
                    .await?;
            changes.writes.push(Write::PutPayload(payload));
        }
        self.platform.commit(&job.scope, changes).await
    }

    /// Makes the outcome durable, however long the store needs. Whoever waits is told of the first refusal.
    async fn record(
        &self,
        job: Job,
        mut transcript: Transcript,
        outcome: Result<(), RuntimeFailure>,
    ) -> Result<Option<Finished>, Error> {
        let end = outcome::decide(&self.platform, job.turn, &mut transcript, outcome)?;
        let mut pause = FIRST_RETRY;
        loop {
            let changes = end.changes(&self.platform, &job.scope).await;
            let committed = match changes {
                Ok(changes) => self.platform.commit(&job.scope, changes).await,
                Err(error) => Err(error),
            };
            match committed {
                Ok(committed) => {
                    let last_seq = committed.events.last().map_or(0, |event| event.seq);
                    return Ok(Some(Finished { turn: end.turn, answer: end.answer, last_seq }));
                }
                Err(Error::Store(StoreError::Conflict(Conflict::TurnFinished(_)))) => {
                    return Ok(None);
                }
                Err(Error::Store(error @ (StoreError::Full | StoreError::Unavailable(_)))) => {
                    warn!(%error, "the outcome of a turn cannot be stored now; trying again");
                    self.running.resolve_failed(end.turn.id, error);
                    tokio::time::sleep(pause).await;
                    pause = LAST_RETRY.min(pause * 2);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts the oldest turn that waits in the session, if nothing runs and nothing holds it back.
    pub(crate) async fn start_next(self: &Arc<Self>, scope: &Scope, session: SessionId) {
        for _ in 0..RACE_ATTEMPTS {
            match self.try_start_next(scope, session).await {
                Ok(()) => return,
                // Somebody was faster; whether a turn still waits is seen on the next look.
                Err(error) if error.is_lost_race() => {}
                Err(Error::Store(error @ (StoreError::Full | StoreError::Unavailable(_)))) => {
                    warn!(%error, "a queued turn cannot be started now; trying again later");
                    return self.start_next_later(scope, session);
                }
                Err(error) => {
                    error!(%error, session.id = %session, "a queued turn could not be started");
                    return;
                }
            }
        }
        self.start_next_later(scope, session);
    }

    /// A turn that waits must not depend on somebody asking again.
    fn start_next_later(self: &Arc<Self>, scope: &Scope, session: SessionId) {
        let (orchestrator, scope) = (Arc::clone(self), scope.clone());
        self.tasks.spawn(async move {
            tokio::time::sleep(START_RETRY).await;
            orchestrator.start_next(&scope, session).await;
        });
    }

    async fn try_start_next(
        self: &Arc<Self>,
        scope: &Scope,
        session: SessionId,
    ) -> Result<(), Error> {
        if self.running.check_open().is_err() || self.running.is_held(session) {
            return Ok(());
        }
        let pending = self.platform.store.list_pending_turns(scope, session).await?;
        let Some(mut turn) = pending.into_iter().next().filter(Turn::is_queued) else {
            return Ok(());
        };
        let Some(record) = self.platform.store.find_session(scope, session).await? else {
            return Ok(());
        };
        let Some(changes) = outcome::starting(&record.session, &mut turn, self.platform.now())
        else {
            return Ok(());
        };
        let scope = Scope::on_behalf_of(turn.org, turn.created_by);
        let instruction = Arc::from(self.instruction_of(&scope, &turn).await?);
        let binding = &record.session.binding;
        let agent = self.agents.resolve_bound(&self.platform, &scope, binding).await?;
        let runtime = agent.map(|agent| agent.runtime);
        let Some(control) = self.running.enter(turn.id) else { return Ok(()) };
        let started = self.platform.commit(&scope, changes).await;
        let job = Job { scope, session, turn, instruction, runtime, control };
        match started {
            Ok(_) => self.spawn(job),
            Err(error) if error.is_unavailable() => {
                warn!(%error, "it is not known whether a queued turn has started");
                self.spawn_if_started(job);
            }
            Err(error) => {
                self.running.leave(job.turn.id);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Runs a turn if its start was kept; else looks for it in the queue again.
    fn spawn_if_started(self: &Arc<Self>, job: Job) {
        let orchestrator = Arc::clone(self);
        self.tasks.spawn(async move {
            match orchestrator.kept_after_all(&job.scope, &job.turn).await {
                Some(kept) if kept.started_at == job.turn.started_at => orchestrator.run(job).await,
                _ => {
                    orchestrator.running.leave(job.turn.id);
                    orchestrator.start_next(&job.scope, job.session).await;
                }
            }
        });
    }

    /// Whether a turn is in the store and pending, after the store did not say so. Asks until there is an answer; a
    /// process that ends before there is one leaves it to recovery.
    pub(super) async fn kept_after_all(&self, scope: &Scope, turn: &Turn) -> Option<Turn> {
        let mut pause = FIRST_RETRY;
        while self.running.check_open().is_ok() {
            let session = turn.request.conversation;
            match self.platform.store.find_turn(scope, session, turn.id).await {
                Ok(found) => {
                    return found.map(|record| record.turn).filter(|turn| !turn.status_is_final());
                }
                Err(error) => warn!(%error, "it is not known yet whether a turn was kept"),
            }
            tokio::time::sleep(pause).await;
            pause = LAST_RETRY.min(pause * 2);
        }
        None
    }
}

fn start(job: &Job) -> Option<BoxStream<'static, AgentUpdate>> {
    let request = RunRequest {
        session: job.session,
        turn: job.turn.id,
        instruction: Arc::clone(&job.instruction),
        mode: job.turn.request.mode,
        model: job.turn.request.model.clone(),
        cancel: job.control.stop.clone(),
    };
    job.runtime.as_ref().map(|runtime| runtime.run(request))
}

/// Takes in one update and whatever else the agent has ready, so that a quick answer is one write.
fn take_in(
    first: Option<AgentUpdate>,
    updates: &mut BoxStream<'static, AgentUpdate>,
    transcript: &mut Transcript,
) -> Option<AgentEnd> {
    let mut next = first;
    for _ in 0..MAX_WAITING_EVENTS {
        match next {
            Some(AgentUpdate::Finished(AgentOutcome::Answered)) => return Some(AgentEnd::Answered),
            Some(AgentUpdate::Finished(AgentOutcome::Failed(failure))) => {
                return Some(AgentEnd::Failed(failure));
            }
            Some(update) => transcript.add(update),
            None => {
                return Some(AgentEnd::Failed(RuntimeFailure {
                    code: FailureCode::AgentProtocolError,
                    message: "the agent stopped without an outcome".to_owned(),
                }));
            }
        }
        match updates.next().now_or_never() {
            Some(ready) => next = ready,
            None => return None,
        }
    }
    None
}

fn ended_elsewhere(written: &Result<Committed, Error>) -> bool {
    match written {
        Ok(_) => false,
        Err(Error::Store(StoreError::Conflict(_))) => true,
        Err(error) => {
            error!(%error, "events of a turn could not be stored");
            false
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// At most one write in flight, and none sooner than it is due.
#[derive(Default)]
struct PacedWriter<'a> {
    in_flight: Option<BoxFuture<'a, Result<Committed, Error>>>,
    first_text_at: Option<Instant>,
    last_write_at: Option<Instant>,
}

impl<'a> PacedWriter<'a> {
    fn is_writing(&self) -> bool {
        self.in_flight.is_some()
    }

    /// When the next write may begin; `None` when there is nothing to write, or one is in flight.
    fn due(&mut self, transcript: &Transcript) -> Option<Instant> {
        if self.is_writing() || !transcript.is_due() {
            return None;
        }
        let now = Instant::now();
        let first = *self.first_text_at.get_or_insert(now);
        if transcript.ready_events() > 0 {
            return Some(now);
        }
        let wait = wait_before_write(
            now - first,
            self.last_write_at.map(|last| now - last),
            transcript.unwritten_bytes(),
        );
        Some(now + wait)
    }

    fn begin(&mut self, write: BoxFuture<'a, Result<Committed, Error>>) {
        self.last_write_at = Some(Instant::now());
        self.in_flight = Some(write);
    }

    async fn written(&mut self) -> Result<Committed, Error> {
        match &mut self.in_flight {
            Some(write) => {
                let written = write.await;
                self.in_flight = None;
                written
            }
            None => std::future::pending().await,
        }
    }

    /// Waits for the write in flight: what follows must come after it.
    async fn settle(&mut self) {
        if self.is_writing() {
            drop(self.written().await);
        }
    }
}
