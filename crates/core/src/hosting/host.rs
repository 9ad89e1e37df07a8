//! One agent process, from its start to its end.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures::{Stream, StreamExt, stream::BoxStream};
use serde_json::json;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Hosting, Notice, NoticeKind};
use crate::{
    Error,
    agents::Agent,
    model::{FailureCode, OrgId, Scope, SessionId, UserId},
    platform::RACE_ATTEMPTS,
    policy::permission::{self, PermissionPolicy},
    ports::{
        AgentUpdate, AuditEntry, ChangeSet, ResidentAgent, ResidentRuntime, RunRequest,
        RuntimeFailure, SessionRecord, StartAgent,
    },
    registry::check_registered,
    sessions,
};

/// A process as others see it.
pub(super) struct Host {
    state: watch::Sender<State>,
    stop: CancellationToken,
    gone: CancellationToken,
    activity: Activity,
}

#[derive(Clone)]
enum State {
    Starting,
    Ready(Ready),
    Ended(RuntimeFailure),
}

/// An agent that can be prompted.
#[derive(Clone)]
pub(super) struct Ready {
    pub(super) agent: Arc<dyn ResidentAgent>,
    policy: PermissionPolicy,
}

/// When something last happened, and whether something is going on.
struct Activity {
    last: Mutex<Instant>,
    running: AtomicUsize,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            state: watch::Sender::new(State::Starting),
            stop: CancellationToken::new(),
            gone: CancellationToken::new(),
            activity: Activity { last: Mutex::new(Instant::now()), running: AtomicUsize::new(0) },
        }
    }
}

impl Host {
    /// The agent, once it can be prompted.
    pub(super) async fn ready(&self) -> Result<Ready, RuntimeFailure> {
        self.settled(|state| !matches!(state, State::Starting)).await
    }

    /// The agent that comes after this one.
    pub(super) async fn ready_after(&self, before: &Ready) -> Result<Ready, RuntimeFailure> {
        self.settled(|state| match state {
            State::Starting => false,
            State::Ready(ready) => !Arc::ptr_eq(&ready.agent, &before.agent),
            State::Ended(_) => true,
        })
        .await
    }

    async fn settled(
        &self,
        is_settled: impl FnMut(&State) -> bool,
    ) -> Result<Ready, RuntimeFailure> {
        let mut states = self.state.subscribe();
        let settled = states.wait_for(is_settled).await;
        match settled.as_deref() {
            Ok(State::Ready(ready)) => Ok(ready.clone()),
            Ok(State::Ended(failure)) => Err(failure.clone()),
            Ok(State::Starting) | Err(_) => Err(stopped()),
        }
    }

    /// Questions get the policy's answer on their way, and every update counts as activity.
    pub(super) fn prompt(
        self: &Arc<Self>,
        ready: &Ready,
        request: RunRequest,
    ) -> BoxStream<'static, AgentUpdate> {
        self.activity.running.fetch_add(1, Ordering::SeqCst);
        let guard = Prompted { host: Arc::clone(self), updates: ready.agent.prompt(request) };
        let policy = ready.policy;
        guard
            .map(move |mut update| {
                if let AgentUpdate::Permission(ask) = &mut update {
                    let taken = permission::decide(policy, &ask.tool.kind, &ask.options);
                    ask.decided = taken.map(|option| option.option_id.clone());
                }
                update
            })
            .boxed()
    }

    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    pub(super) fn is_ending(&self) -> bool {
        self.stop.is_cancelled() || matches!(*self.state.borrow(), State::Ended(_))
    }

    pub(super) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    fn end(&self, failure: RuntimeFailure) {
        self.state.send_replace(State::Ended(failure));
    }

    fn touch(&self) {
        *self.activity.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Resolves when nothing runs and nothing has happened for so long. Updates that nobody asked for count too.
    async fn idle(&self, agent: &dyn ResidentAgent, timeout: std::time::Duration) {
        loop {
            let touched = *self.activity.last.lock().unwrap_or_else(PoisonError::into_inner);
            let last = touched.max(agent.last_heard_at());
            let is_running = self.activity.running.load(Ordering::SeqCst) > 0;
            let since = if is_running { Instant::now() } else { last };
            if since.elapsed() >= timeout {
                return;
            }
            tokio::time::sleep_until(since + timeout).await;
        }
    }
}

/// The updates of one prompt. While it lives, the host is not idle.
struct Prompted {
    host: Arc<Host>,
    updates: BoxStream<'static, AgentUpdate>,
}

impl Stream for Prompted {
    type Item = AgentUpdate;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<AgentUpdate>> {
        let update = self.updates.poll_next_unpin(context);
        if update.is_ready() {
            self.host.touch();
        }
        update
    }
}

impl Drop for Prompted {
    fn drop(&mut self) {
        self.host.touch();
        self.host.activity.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Drives one process.
pub(super) struct Task {
    pub(super) hosting: Arc<Hosting>,
    pub(super) host: Arc<Host>,
    pub(super) session: SessionId,
    pub(super) org: OrgId,
    pub(super) owner: UserId,
}

/// Why a process ended.
enum End {
    /// It was told to, or could not be started for now. The next prompt starts it again.
    Stopped(RuntimeFailure),
    Died(RuntimeFailure),
}

impl Task {
    pub(super) async fn run(self) {
        let end = loop {
            match self.live().await {
                // It was ended because it would not be cancelled: its session goes on with a new process.
                End::Died(failure) if failure.code == FailureCode::Cancelled => {
                    self.host.state.send_replace(State::Starting);
                }
                end @ (End::Stopped(_) | End::Died(_)) => break end,
            }
        };
        match end {
            End::Stopped(failure) => self.host.end(failure),
            End::Died(failure) => {
                warn!(session.id = %self.session, code = %failure.code, "an agent ended: {}", failure.message);
                self.host.end(failure.clone());
                self.tell(NoticeKind::Died(failure)).await;
            }
        }
        self.hosting.forget(self.session, &self.host);
        self.host.gone.cancel();
    }

    /// The life of one process.
    async fn live(&self) -> End {
        match self.start().await {
            Ok(agent) => self.keep(agent).await,
            Err(end) => end,
        }
    }

    /// From nothing to an agent whose session is open and known to the store.
    async fn start(&self) -> Result<Arc<dyn ResidentAgent>, End> {
        let (record, agent, workspace) = self.unless_stopped(self.prepare()).await??;
        let residence = agent.runtime.residence().ok_or_else(|| unusable(not_configured()))?;
        let start = StartAgent {
            session: self.session,
            org: self.org,
            owner: self.owner,
            workspace,
            provider_session_id: record.session.provider_session_id.clone(),
            stop: self.host.stop.child_token(),
        };
        let started = self.start_in_time(residence, start).await?;
        match self.unless_stopped(self.note(&started)).await {
            Ok(Ok(true)) => {}
            Ok(Err(error)) => return Err(unusable(error)),
            Ok(Ok(false)) | Err(_) => {
                started.end().await;
                return Err(End::Stopped(stopped()));
            }
        }
        let repository = record.repository.map_or(String::new(), |repo| repo.name);
        let policy = residence.permissions(&repository);
        self.host.touch();
        let ready = Ready { agent: Arc::clone(&started), policy };
        self.host.state.send_replace(State::Ready(ready));
        Ok(started)
    }

    async fn prepare(&self) -> Result<(SessionRecord, Agent, String), End> {
        let (record, agent) =
            self.look_up().await.map_err(unusable)?.ok_or_else(|| End::Stopped(stopped()))?;
        let workspace = self.check_workspace(&record).await.map_err(unusable)?;
        Ok((record, agent, workspace))
    }

    /// A start is never dropped: whatever it has begun, the session's home included, is over when this returns.
    async fn start_in_time(
        &self,
        residence: &dyn ResidentRuntime,
        start: StartAgent,
    ) -> Result<Arc<dyn ResidentAgent>, End> {
        let (limit, stop) = (self.hosting.settings.start, start.stop.clone());
        let mut starting = residence.start(start);
        let started = match tokio::time::timeout(limit, &mut starting).await {
            Ok(started) => started,
            Err(_) => {
                stop.cancel();
                if let Ok(late) = starting.await {
                    late.end().await;
                }
                let message =
                    format!("the agent did not open a session within {} s", limit.as_secs_f64());
                Err(RuntimeFailure { code: FailureCode::AgentInitTimeout, message })
            }
        };
        started.map_err(|failure| match self.host.stop.is_cancelled() {
            true => End::Stopped(stopped()),
            false => End::Died(failure),
        })
    }

    async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Result<T, End> {
        let done = self.host.stop.run_until_cancelled(work).await;
        done.ok_or_else(|| End::Stopped(stopped()))
    }

    /// Stays with the agent until it ends, or is to.
    async fn keep(&self, agent: Arc<dyn ResidentAgent>) -> End {
        let mut ended = agent.ended();
        loop {
            tokio::select! {
                biased;
                () = self.host.stop.cancelled() => {
                    agent.end().await;
                    return End::Stopped(stopped());
                }
                failure = &mut ended => return End::Died(failure),
                () = self.host.idle(agent.as_ref(), self.hosting.settings.idle) => {
                    self.tell(NoticeKind::Idle).await;
                    // If the session goes on after all, it is because something happens in it now.
                    self.host.touch();
                }
            }
        }
    }

    /// `None` when the session takes no agent any more.
    async fn look_up(&self) -> Result<Option<(SessionRecord, Agent)>, Error> {
        let (scope, platform) = (self.scope(), &self.hosting.platform);
        let found = platform.store.find_session(&scope, self.session).await?;
        let Some(record) = found.filter(|record| !record.session.state.name().is_final()) else {
            return Ok(None);
        };
        let binding = &record.session.binding;
        let agent = self.hosting.agents.resolve_bound(platform, &scope, binding).await?;
        Ok(Some((record, agent.ok_or_else(not_configured)?)))
    }

    /// The third look at the path, after its registration and the session's creation.
    async fn check_workspace(&self, record: &SessionRecord) -> Result<String, Error> {
        let (scope, platform) = (self.scope(), &self.hosting.platform);
        let Some(repo) = &record.repository else {
            let reason = "the session has no repository".to_owned();
            return Err(Error::Invalid { field: "repoId", reason });
        };
        let real = check_registered(platform, &scope, &repo.path).await?;
        let detail = json!({"path": real, "agent": record.agent_context_name});
        let target = format!("session/{}", self.session);
        let entry = AuditEntry { at: platform.now(), action: "agent.started", target, detail };
        let changes = ChangeSet { audit: vec![entry], ..ChangeSet::default() };
        platform.commit(&scope, changes).await?;
        info!(session.id = %self.session, path = real, "starting an agent");
        Ok(real)
    }

    /// Keeps the agent's name of the session before the first prompt. `false` when the session has ended meanwhile.
    async fn note(&self, agent: &Arc<dyn ResidentAgent>) -> Result<bool, Error> {
        let (scope, platform) = (self.scope(), &self.hosting.platform);
        let mut lost = Error::NotFound { entity: "session" };
        for _ in 0..RACE_ATTEMPTS {
            let found = platform.store.find_session(&scope, self.session).await?;
            let Some(session) = found.map(|record| record.session) else { return Ok(false) };
            let id = agent.provider_session_id();
            let now = platform.now();
            let changes = match sessions::housing(&session, id, agent.shortcomings(), now)? {
                sessions::Housing::Changed(changes) => changes,
                sessions::Housing::Same => return Ok(true),
                sessions::Housing::Unwanted => return Ok(false),
            };
            match platform.commit(&scope, *changes).await {
                Ok(_) => return Ok(true),
                Err(error) if error.is_lost_race() => lost = error,
                Err(error) => return Err(error),
            }
        }
        Err(lost)
    }

    async fn tell(&self, what: NoticeKind) {
        let notice = Notice { session: self.session, org: self.org, owner: self.owner, what };
        // Nobody listens any more when the server stops.
        drop(self.hosting.notices.send(notice).await);
    }

    fn scope(&self) -> Scope {
        Scope::on_behalf_of(self.org, self.owner)
    }
}

/// A store that is away is no fault of the agent's.
fn unusable(error: Error) -> End {
    let code = FailureCode::AgentUnavailable;
    if let Error::Store(error) = error {
        warn!(%error, "an agent cannot be started now");
        let message = "the agent cannot be started: the store is unavailable".to_owned();
        return End::Stopped(RuntimeFailure { code, message });
    }
    End::Died(RuntimeFailure { code, message: error.to_string() })
}

fn not_configured() -> Error {
    let reason = "this session's agent is no longer configured".to_owned();
    Error::Invalid { field: "agent", reason }
}

fn stopped() -> RuntimeFailure {
    let message = "the agent was stopped".to_owned();
    RuntimeFailure { code: FailureCode::Interrupted, message }
}
