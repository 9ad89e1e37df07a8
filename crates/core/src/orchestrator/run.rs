//! From a durable turn to its outcome: drives the agent, writes what it does, and ends the turn.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream::BoxStream};
use tokio::time::Instant;
use tracing::{Instrument, error, info_span, warn};

use super::{
    Orchestrator,
    accept::event,
    bundle::Proposed,
    outcome,
    paced::PacedWriter,
    planning::{Planned, Unplanned},
    running::{Control, Finished},
    transcript::{Before, MAX_WAITING_EVENTS, Ready, Transcript},
};
use crate::{
    Error,
    agents::Agent,
    model::{FailureCode, Scope, SessionId, Turn, TurnId},
    policy::{chain::ProviderSays, delta::GivenFile},
    ports::{
        AgentOutcome, AgentRuntime, AgentUpdate, ChangeSet, Committed, Conflict, Expectation,
        Prompt, Reattach, RunRequest, RuntimeFailure, StoreError, Write,
    },
};

/// A turn that is stopped does not wait longer than this for a write; its end carries the whole text.
const LAST_WRITE: Duration = Duration::from_secs(1);
/// … nor longer than this for a provider to hear that nobody waits any more.
const LAST_CALL: Duration = Duration::from_secs(2);

/// Between attempts to store what the store does not take.
pub(super) const FIRST_RETRY: Duration = Duration::from_millis(100);
pub(super) const LAST_RETRY: Duration = Duration::from_secs(5);

/// Calls to a provider for one turn whose replies prove that nothing ran, plus the one that runs.
const MAX_CALLS: u32 = 3;

/// A started turn with all that its run needs.
pub(super) struct Job {
    /// Skein's own, on behalf of whoever gave the instruction: it outlives the caller's token.
    pub(super) scope: Scope,
    pub(super) session: SessionId,
    pub(super) turn: Turn,
    pub(super) prompt: Arc<Prompt>,
    pub(super) body: Option<Bytes>,
    /// What the request brought along, for a prompt that has to be put together again.
    pub(super) files: Vec<GivenFile>,
    /// None when the session's agent is no longer configured.
    pub(super) agent: Option<Agent>,
    pub(super) control: Arc<Control>,
    /// What was durable of the turn when its run began: more than nothing only after a crash.
    pub(super) before: Before,
    pub(super) calls_left: u32,
}

impl Job {
    pub(super) fn new(
        scope: Scope,
        (session, planned): (SessionId, Planned),
        (agent, control): (Option<Agent>, Arc<Control>),
    ) -> Self {
        let Planned { turn, prompt, body, .. } = planned;
        Self {
            scope,
            session,
            turn,
            prompt,
            body,
            files: Vec::new(),
            agent,
            control,
            before: Before::default(),
            calls_left: MAX_CALLS,
        }
    }

    pub(super) fn with_files(self, files: Vec<GivenFile>) -> Self {
        Self { files, ..self }
    }

    pub(super) fn runtime(&self) -> Option<&dyn AgentRuntime> {
        self.agent.as_ref().map(|agent| agent.runtime.as_ref())
    }
}

/// How the agent's part of a turn ended.
pub(super) enum AgentEnd {
    Answered,
    Failed(RuntimeFailure),
    /// The provider does not know the chain; nothing ran.
    ChainLost {
        calls: u32,
    },
    /// The turn has its outcome already; there is nothing left to record.
    EndedElsewhere,
}

impl AgentEnd {
    fn failed(code: FailureCode, message: &str) -> Self {
        Self::Failed(RuntimeFailure { code, message: message.to_owned() })
    }

    fn is_of_stop(&self, job: &Job) -> bool {
        matches!(self, Self::Failed(_)) && job.control.stop.is_cancelled()
    }
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
        if self.running.may_have_queue(session) {
            self.start_next(&scope, session).await;
        }
    }

    /// Somebody else ended the turn: whoever waits here gets what is stored.
    async fn tell_stored_outcome(&self, scope: &Scope, session: SessionId, turn: TurnId) {
        match self.platform.store.find_turn(scope, session, turn).await {
            Ok(Some(record)) => self.running.resolve(turn, Finished::without_answer(record.turn)),
            Ok(None) | Err(_) => self.running.forget(turn),
        }
    }

    async fn drive_and_record(&self, mut job: Job) -> Result<Option<Finished>, Error> {
        let before = std::mem::take(&mut job.before);
        let taken_up = before.response.clone();
        let is_taken_up = taken_up.is_some();
        let platform = Arc::clone(&self.platform);
        let mut transcript = Transcript::new(platform, job.turn.clone(), job.runtime(), before);
        let mut end = self.drive_safely(&job, &mut transcript, taken_up).await;
        if let AgentEnd::ChainLost { calls } = end {
            job.calls_left = job.calls_left.saturating_sub(calls).max(1);
            end = match self.rehydrate(&mut job).await {
                Ok(Some(end)) => end,
                Ok(None) => self.drive_safely(&job, &mut transcript, None).await,
                Err(error) => {
                    error!(%error, "a conversation could not be put together again");
                    let message = "the provider no longer knows the conversation, and it could not be started anew";
                    AgentEnd::failed(FailureCode::ProviderError, message)
                }
            };
        }
        if !is_taken_up {
            self.count(&job.turn);
        }
        let outcome = match end {
            AgentEnd::Answered => Ok(()),
            AgentEnd::Failed(failure) => Err(failure),
            AgentEnd::ChainLost { .. } => Err(RuntimeFailure {
                code: FailureCode::ProviderError,
                message: "the provider refused a conversation that was started anew".to_owned(),
            }),
            AgentEnd::EndedElsewhere => return Ok(None),
        };
        self.record(job, transcript, outcome).await
    }

    /// The provider has forgotten the conversation: the turn is planned once more, on a new chain.
    async fn rehydrate(&self, job: &mut Job) -> Result<Option<AgentEnd>, Error> {
        let Some(agent) = job.agent.clone() else { return Ok(None) };
        let planned = self.patiently(job.turn.id, || self.plan_anew(job, &agent)).await?;
        let Some(planned) = planned else { return Ok(Some(AgentEnd::EndedElsewhere)) };
        let replanned = self
            .patiently(job.turn.id, || async {
                let staged = self.stage(&job.scope, planned.drafts.clone()).await?;
                let writes = staged.into_iter().map(Write::PutPayload);
                let plan = Write::PlanTurn(Box::new(planned.turn.clone()));
                let body = planned.event();
                let now = self.platform.now();
                let changes = ChangeSet {
                    expects: vec![Expectation::TurnPending { turn: job.turn.id }],
                    writes: writes.chain([plan]).collect(),
                    events: body.into_iter().map(|body| event(&planned.turn, now, body)).collect(),
                    ..ChangeSet::default()
                };
                self.platform.commit(&job.scope, changes).await
            })
            .await;
        match replanned {
            Ok(_) => {}
            Err(Error::Store(StoreError::Conflict(_))) => {
                return Ok(Some(AgentEnd::EndedElsewhere));
            }
            Err(error) => return Err(error),
        }
        let Planned { turn, prompt, body, .. } = planned;
        (job.turn, job.prompt, job.body) = (turn, prompt, body);
        Ok(None)
    }

    /// `None` when the session is gone.
    async fn plan_anew(&self, job: &Job, agent: &Agent) -> Result<Option<Planned>, Error> {
        let record = self.platform.store.find_session(&job.scope, job.session).await?;
        let Some(record) = record else { return Ok(None) };
        let unplanned = Unplanned {
            session: &record.session,
            agent,
            // The plan that was refused, and its warnings, no longer count.
            turn: Turn { warnings: Vec::new(), ..job.turn.clone() },
            instruction: Arc::clone(&job.prompt.instruction),
            files: &job.files,
        };
        self.plan(&job.scope, unplanned, ProviderSays::Unknown).await.map(Some)
    }

    /// A bug in a runtime must not leave its turn pending for ever.
    async fn drive_safely(
        &self,
        job: &Job,
        transcript: &mut Transcript,
        taken_up: Option<(String, Option<u64>)>,
    ) -> AgentEnd {
        let driven = AssertUnwindSafe(self.drive(job, transcript, taken_up)).catch_unwind().await;
        driven.unwrap_or_else(|_| {
            let code = FailureCode::AgentProtocolError;
            AgentEnd::failed(code, "the agent's runtime failed unexpectedly")
        })
    }

    /// Dispatches the turn, or takes up what was dispatched before a crash.
    fn dispatch(
        &self,
        job: &Job,
        taken_up: Option<(String, Option<u64>)>,
    ) -> Option<BoxStream<'static, AgentUpdate>> {
        let (session, turn) = (job.session, job.turn.id);
        let cancel = job.control.stop.clone();
        let runtime = job.runtime()?;
        if let Some((response_id, after)) = taken_up {
            let mode = job.turn.request.mode;
            let request = Reattach { session, turn, mode, response_id, after, cancel };
            return Some(runtime.reattach(request));
        }
        let (prompt, body) = (Arc::clone(&job.prompt), job.body.clone());
        let attempts = job.calls_left;
        let request = RunRequest { session, turn, prompt, body, attempts, cancel };
        Some(match runtime.residence() {
            Some(_) => self.hosting.prompt(&job.scope, request),
            None => runtime.run(request),
        })
    }

    /// Listens to the agent and writes what it does, at the pace of [`PacedWriter`].
    async fn drive(
        &self,
        job: &Job,
        transcript: &mut Transcript,
        taken_up: Option<(String, Option<u64>)>,
    ) -> AgentEnd {
        let Some(mut updates) = self.dispatch(job, taken_up) else {
            let code = FailureCode::AgentUnavailable;
            return AgentEnd::failed(code, "this session's agent is no longer configured");
        };
        let mut writer = PacedWriter::default();
        loop {
            let room = transcript.has_room();
            let write_at = match writer.due(transcript) {
                // Before the agent is asked for more: whoever reads along sees the first text at once.
                Some(at) if at <= Instant::now() => {
                    self.begin_write(&mut writer, job, transcript.take());
                    None
                }
                later => later,
            };
            tokio::select! {
                biased;
                () = job.control.stop.cancelled() => {
                    drop(tokio::time::timeout(LAST_WRITE, writer.settle()).await);
                    transcript.take_back(writer.give_up());
                    return self.stop(job, transcript, updates).await;
                }
                written = writer.written(), if writer.is_writing() => {
                    if ended_elsewhere(&written) {
                        return AgentEnd::EndedElsewhere;
                    }
                }
                update = updates.next(), if room => {
                    let end = take_in(update, &mut updates, transcript);
                    // A runtime may hear of a stop before this loop does; its response is called off all the same.
                    if let Some(end) = end.filter(|end| !end.is_of_stop(job)) {
                        writer.settle().await;
                        return end;
                    }
                }
                () = sleep_until(write_at), if write_at.is_some() => {
                    self.begin_write(&mut writer, job, transcript.take());
                }
            }
        }
    }

    /// The turn is ended from outside. A response that would go on without us is called off, once its id is known.
    async fn stop(
        &self,
        job: &Job,
        transcript: &mut Transcript,
        mut updates: BoxStream<'static, AgentUpdate>,
    ) -> AgentEnd {
        if let Some(runtime) = job.runtime().filter(|runtime| runtime.outlives_connections()) {
            let until_known = async {
                while transcript.response_id().is_none() {
                    match updates.next().await {
                        Some(AgentUpdate::Finished(_)) | None => break,
                        Some(update) => transcript.add(update),
                    }
                }
            };
            drop(tokio::time::timeout(LAST_CALL, until_known).await);
            if let Some(id) = transcript.response_id() {
                drop(tokio::time::timeout(LAST_CALL, runtime.abandon(id.clone())).await);
            }
        }
        let cause = job.control.cause.get().cloned();
        AgentEnd::Failed(cause.unwrap_or_else(|| outcome::reason_for(FailureCode::Interrupted)))
    }

    /// Writes events in the middle of a turn. If the store does not take them now, it is tried again;
    /// meanwhile what the agent says piles up to a limit, and then the agent waits.
    fn begin_write<'a>(&'a self, writer: &mut PacedWriter<'a>, job: &'a Job, ready: Ready) {
        let parts = ready.parts.clone();
        let write =
            async move { self.patiently(job.turn.id, || self.try_write(job, &ready)).await };
        writer.begin(parts, write.boxed());
    }

    async fn try_write(&self, job: &Job, ready: &Ready) -> Result<Committed, Error> {
        let mut changes = ChangeSet {
            expects: vec![Expectation::TurnPending { turn: job.turn.id }],
            events: ready.events.clone(),
            ..ChangeSet::default()
        };
        changes.writes = ready.writes(&self.platform, &job.scope).await?;
        if let Some((response_id, position)) = ready.response.clone() {
            let turn = job.turn.id;
            changes.writes.push(Write::NoteResponse { turn, response_id, position });
        }
        let committed = self.platform.commit(&job.scope, changes).await?;
        self.follow_questions(job, &ready.asked);
        Ok(committed)
    }

    /// Makes the outcome durable, however long the store needs. Whoever waits is told of the first refusal.
    async fn record(
        &self,
        job: Job,
        mut transcript: Transcript,
        ended: Result<(), RuntimeFailure>,
    ) -> Result<Option<Finished>, Error> {
        let proposals = match &ended {
            Ok(()) => std::mem::take(&mut transcript.proposals),
            Err(_) => Vec::new(),
        };
        let Proposed { bundle, mut warnings } =
            self.patiently(job.turn.id, || self.bundle(&job, &proposals)).await?;
        transcript.warnings.append(&mut warnings);
        let end = outcome::decide(&self.platform, job.turn, &mut transcript, ended)?
            .with_bundle(&self.platform, bundle)?
            .with_chain(&self.platform, job.agent.as_ref(), &job.prompt);
        let committed = self
            .patiently(end.turn.id, || async {
                loop {
                    let changes = end.changes(&self.platform, &job.scope).await?;
                    match self.platform.commit(&job.scope, changes).await {
                        // Somebody has just answered: one question less is left open.
                        Err(Error::Store(StoreError::Conflict(Conflict::PermissionSettled(_)))) => {
                        }
                        settled => return settled,
                    }
                }
            })
            .await;
        match committed {
            Ok(committed) => Ok(Some(end.finished(&committed))),
            Err(Error::Store(StoreError::Conflict(Conflict::TurnFinished(_)))) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Tries until the store takes it, or refuses it for good.
    async fn patiently<T, F, A>(&self, turn: TurnId, attempt: A) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
        A: Fn() -> F,
    {
        let mut pause = FIRST_RETRY;
        loop {
            match attempt().await {
                Err(Error::Store(error @ (StoreError::Full | StoreError::Unavailable(_)))) => {
                    warn!(%error, "the store does not take a turn's writes now; trying again");
                    self.running.resolve_failed(turn, error);
                    tokio::time::sleep(pause).await;
                    pause = LAST_RETRY.min(pause * 2);
                }
                settled => return settled,
            }
        }
    }
}

/// Takes in one update and whatever else the agent has ready, so that a quick answer is one write.
fn take_in(
    first: Option<AgentUpdate>,
    updates: &mut BoxStream<'static, AgentUpdate>,
    transcript: &mut Transcript,
) -> Option<AgentEnd> {
    let mut next = first;
    let mut taken = 0;
    loop {
        match next {
            Some(AgentUpdate::Finished(outcome)) => {
                return Some(match outcome {
                    AgentOutcome::Answered => AgentEnd::Answered,
                    AgentOutcome::ChainLost { calls } => AgentEnd::ChainLost { calls },
                    AgentOutcome::Unheard(failure) | AgentOutcome::Failed(failure) => {
                        AgentEnd::Failed(failure)
                    }
                });
            }
            Some(update) => transcript.add(update),
            None => {
                let code = FailureCode::AgentProtocolError;
                return Some(AgentEnd::failed(code, "the agent stopped without an outcome"));
            }
        }
        taken += 1;
        let is_enough = taken >= MAX_WAITING_EVENTS || !transcript.has_room();
        if is_enough && transcript.is_between_events() {
            return None;
        }
        match updates.next().now_or_never() {
            Some(ready) => next = ready,
            None => return None,
        }
    }
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
