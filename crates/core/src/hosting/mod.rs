//! Agent processes: which sessions have one, how many there may be, and when they end.
//!
//! A session that is created or active holds a *slot*; its process may come and go meanwhile. What a process's end
//! means for its session is decided by [`crate::sessions`], which is told through [`Notice`].

mod host;
mod slots;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{FutureExt, StreamExt, future, stream, stream::BoxStream};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::info;

use self::host::{Host, Task};
pub use self::slots::Slot;
use self::slots::Slots;
use crate::{
    Error,
    agents::Agents,
    model::{OrgId, Scope, Session, SessionId, UserId},
    platform::Platform,
    ports::{AgentOutcome, AgentUpdate, RunRequest, RuntimeFailure},
};

/// Notices that wait; a host that has one more waits with it.
const NOTICES: usize = 64;

/// What an operator may change.
#[derive(Debug, Clone, PartialEq)]
pub struct HostingSettings {
    /// Sessions with an agent process, created or active, over all tenants.
    pub max_active: u32,
    /// Without prompts and agent updates.
    pub idle: Duration,
    /// From the start of the process to its opened session.
    pub start: Duration,
}

impl Default for HostingSettings {
    fn default() -> Self {
        Self { max_active: 5, idle: Duration::from_secs(30 * 60), start: Duration::from_secs(60) }
    }
}

/// Something that concerns the session of a process.
#[derive(Debug, Clone)]
pub struct Notice {
    pub session: SessionId,
    pub org: OrgId,
    pub owner: UserId,
    pub what: NoticeKind,
}

#[derive(Debug, Clone)]
pub enum NoticeKind {
    /// The process has ended without being told to, or never came up.
    Died(RuntimeFailure),
    /// Nothing was asked and nothing was said for as long as is allowed.
    Idle,
}

/// The agent processes of this server.
pub struct Hosting {
    platform: Arc<Platform>,
    agents: Arc<Agents>,
    settings: HostingSettings,
    slots: Arc<Slots>,
    hosts: Mutex<HashMap<SessionId, Arc<Host>>>,
    notices: mpsc::Sender<Notice>,
    closed: CancellationToken,
    tasks: TaskTracker,
}

impl Hosting {
    /// The receiver goes to [`crate::sessions::Sessions::supervise`].
    pub fn new(
        platform: Arc<Platform>,
        agents: Arc<Agents>,
        settings: HostingSettings,
    ) -> (Arc<Self>, mpsc::Receiver<Notice>) {
        let (notices, receiver) = mpsc::channel(NOTICES);
        let slots = Arc::new(Slots::new(settings.max_active));
        let (hosts, closed, tasks) =
            (Mutex::default(), CancellationToken::new(), TaskTracker::new());
        let hosting = Self { platform, agents, settings, slots, hosts, notices, closed, tasks };
        (Arc::new(hosting), receiver)
    }

    /// Holds a place for a session that is about to be created or resumed. `None` for sessions without a process.
    /// Unless it is kept, dropping it gives the place back.
    pub(crate) fn reserve(&self, session: &Session) -> Result<Option<Slot>, Error> {
        if session.is_resident {
            Slots::reserve(&self.slots, session.id).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Starts the session's agent in the background, unless it runs.
    pub(crate) fn launch(self: &Arc<Self>, session: &Session) {
        if session.is_resident {
            self.host(session.id, session.org, session.owner);
        }
    }

    /// Gives an instruction to the session's agent, which is started first where it is not there.
    pub(crate) fn prompt(
        self: &Arc<Self>,
        owner: &Scope,
        request: RunRequest,
    ) -> BoxStream<'static, AgentUpdate> {
        let host = self.host(request.session, owner.org, owner.user);
        let prompted = async move {
            let mut ready = host.ready().await;
            loop {
                let agent = match ready {
                    Ok(agent) => agent,
                    Err(failure) => {
                        let end = AgentUpdate::Finished(AgentOutcome::Failed(failure));
                        return stream::once(future::ready(end)).boxed();
                    }
                };
                let mut updates = host.prompt(&agent, request.clone());
                match updates.next().await {
                    // It would not let the turn before be called off.
                    Some(AgentUpdate::Finished(AgentOutcome::Unheard(_))) => {
                        ready = host.ready_after(&agent).await;
                    }
                    first => return stream::iter(first).chain(updates).boxed(),
                }
            }
        };
        stream::once(prompted).flatten().boxed()
    }

    /// Gives an answer to the agent that asked, if it still runs.
    pub(crate) fn answer(&self, session: SessionId, request_id: &str, option_id: Option<String>) {
        let host = lock(&self.hosts).get(&session).map(Arc::clone);
        if let Some(ready) = host.and_then(|host| host.ready().now_or_never()?.ok()) {
            ready.agent.answer(request_id, option_id);
        }
    }

    /// The session is suspended or has ended: its place is free at once.
    pub(crate) fn vacate(&self, session: SessionId) {
        if let Some(active) = self.slots.free(session) {
            info!(session.id = %session, active, "a session gave up its agent");
        }
    }

    /// … and its process goes.
    pub(crate) fn release(self: &Arc<Self>, session: &Session) {
        if !session.is_resident {
            return;
        }
        let host = lock(&self.hosts).get(&session.id).map(Arc::clone);
        let is_final = session.state.name().is_final();
        let (hosting, session, binding) =
            (Arc::clone(self), session.clone(), session.binding.clone());
        self.tasks.spawn(async move {
            if let Some(host) = host {
                host.stop();
                host.gone().await;
            }
            if is_final {
                let scope = Scope::on_behalf_of(session.org, session.owner);
                let agent = hosting.agents.resolve_bound(&hosting.platform, &scope, &binding).await;
                let runtime = agent.ok().flatten().map(|agent| agent.runtime);
                if let Some(residence) = runtime.as_ref().and_then(|runtime| runtime.residence()) {
                    residence.discard(session.id).await;
                }
            }
        });
    }

    /// How many sessions hold a place.
    pub fn active(&self) -> u32 {
        self.slots.active()
    }

    /// Runs something beside the requests, to be waited for at the end.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// What the future gives, or `None` when the processes are closed first.
    pub(crate) async fn unless_closed<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        self.closed.run_until_cancelled(future).await
    }

    /// Ends every process and waits until all are gone. Their sessions are suspended at the next start.
    pub async fn close(&self) {
        let hosts: Vec<_> = lock(&self.hosts).values().map(Arc::clone).collect();
        for host in &hosts {
            host.stop();
        }
        future::join_all(hosts.iter().map(|host| host.gone())).await;
        self.closed.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn host(self: &Arc<Self>, session: SessionId, org: OrgId, owner: UserId) -> Arc<Host> {
        let mut hosts = lock(&self.hosts);
        if let Some(host) = hosts.get(&session).filter(|host| !host.is_ending()) {
            return Arc::clone(host);
        }
        let before = hosts.get(&session).map(Arc::clone);
        let host = Arc::new(Host::default());
        hosts.insert(session, Arc::clone(&host));
        let task = Task { hosting: Arc::clone(self), host: Arc::clone(&host), session, org, owner };
        self.tasks.spawn(async move {
            // Two processes of one session would share its home and its provider session.
            if let Some(before) = before {
                before.gone().await;
            }
            task.run().await;
        });
        host
    }

    /// The process is gone: the next prompt starts another one.
    fn forget(&self, session: SessionId, host: &Arc<Host>) {
        let mut hosts = lock(&self.hosts);
        if hosts.get(&session).is_some_and(|known| Arc::ptr_eq(known, host)) {
            hosts.remove(&session);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
