//! From settings to a working Skein: the one place that knows every part.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use skein_core::{
    agents::{Agent, Agents},
    auditing::Auditing,
    documents::DocumentedIndex,
    feed::Feed,
    history::History,
    hosting::{Hosting, HostingSettings},
    indexing::Indexing,
    model::{
        AgentContext, AgentContextId, ConversationContext, ConversationContextId, SystemScope,
    },
    orchestrator::Orchestrator,
    people::People,
    permissions::Permissions,
    platform::{BudgetPeriod, Budgets, ContextSettings, Limits, Platform},
    ports::{AgentRuntime, StoreError},
    recovery::{self, Recovered},
    registry::Registry,
    sessions::Sessions,
};
use skein_runtimes::{
    echo::{Echo, EchoSettings},
    local::Local,
    workspace::WorkspaceRoot,
};
use skein_server::{App, Lifecycle, Rate, ServerSettings};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::{
    acp,
    config::{AgentSettings, Config, Period, Runtime, Settings},
    failure::{Exit, Failure},
    home::Home,
    providers, retrieval,
    store::{Engine, Place},
    system::System,
    versions::{self, FormerVersions},
};

/// What is still to be written when everything else has ended may take this long.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// A Skein in this process. The home's lock must be held for as long as it lives.
pub(crate) struct Instance {
    pub(crate) app: App,
    pub(crate) server: ServerSettings,
    store: Engine,
    /// Given up after everything else.
    place: Place,
    /// Writes that nobody waits for.
    background: TaskTracker,
    agent_homes: PathBuf,
}

impl Instance {
    /// Opens the store, brings its schema up to date, and puts everything together.
    pub(crate) async fn open(home: &Home, config: &Config) -> Result<Self, Failure> {
        let (store, place) = Engine::open(home, &config.settings.store).await?;
        let index = retrieval::open(home, config).await?;
        let platform = Arc::new(Platform {
            store: store.storage(),
            feed: Arc::new(Feed::default()),
            clock: Arc::new(System),
            ids: Arc::new(System),
            secrets: Arc::new(System),
            workspaces: Arc::new(workspaces(home, &config.settings)),
            retriever: Arc::new(DocumentedIndex::new(Arc::clone(&index), store.storage())),
            limits: limits(&config.settings),
            context: context(&config.settings),
            budgets: budgets(&config.settings),
            path_escapes: AtomicU64::default(),
        });
        let people = People::new(Arc::clone(&platform));
        leave_token(home, &people).await?;
        let agents = Arc::new(agents(home, config, platform.as_ref()).await?);
        register_conversation_contexts(&config.settings, &platform).await?;
        let (hosting, notices) =
            Hosting::new(Arc::clone(&platform), Arc::clone(&agents), hosting(&config.settings));
        let orchestrator = Orchestrator::new(
            Arc::clone(&platform),
            Arc::clone(&agents),
            Arc::clone(&hosting),
            TaskTracker::new(),
        );
        let background = TaskTracker::new();
        let sessions =
            Sessions::new(Arc::clone(&platform), agents.clone(), Arc::clone(&orchestrator));
        sessions.clone().supervise(notices);
        let app = App {
            registry: Registry::new(Arc::clone(&platform), agents),
            indexing: Indexing::new(Arc::clone(&platform), index),
            auditing: Auditing::new(Arc::clone(&platform), &background),
            permissions: Permissions::new(Arc::clone(&platform), Arc::clone(&hosting)),
            sessions,
            hosting,
            history: History::new(Arc::clone(&platform)),
            requests: TaskTracker::new(),
            platform,
            orchestrator,
            people,
            lifecycle: Lifecycle::default(),
            metrics: skein_server::install_metrics().map_err(|error| {
                Failure::new(Exit::Failed, "metrics cannot be counted").because(error)
            })?,
        };
        let (server, agent_homes) = (server_settings(&config.settings), home.agent_homes());
        Ok(Self { app, server, store, place, background, agent_homes })
    }

    /// Ends what a crash cut off. Before anyone can ask about it.
    pub(crate) async fn recover(&self) -> Result<Recovered, Failure> {
        recovery::classify(&self.app.orchestrator).await.map_err(|error| {
            Failure::new(Exit::Unavailable, "unfinished turns cannot be recovered").because(error)
        })
    }

    /// Removes what agents of sessions that have ended left behind.
    pub(crate) fn sweeping_homes(&self) -> impl Future<Output = ()> + Send + 'static {
        acp::sweep_homes(Arc::clone(&self.app.platform), self.agent_homes.clone())
    }

    /// Seals the audit log for as long as it is polled.
    pub(crate) fn sealing(&self) -> impl Future<Output = ()> + Send + 'static {
        self.store.clone().keep_sealed()
    }

    /// Resolves when somebody else works on the store. Nothing may be written any more then.
    pub(crate) fn displaced(&mut self) -> impl Future<Output = Failure> + use<> {
        std::mem::replace(&mut self.place, Place::Home).lost()
    }

    /// Waits a while for running turns, then closes the store. What is left is recovered at the next start.
    pub(crate) async fn close(self) {
        self.app.requests.close();
        // A command that was waited for has begun them, and vectors come after its answer.
        self.app.indexing.finish().await;
        let running =
            async { tokio::join!(self.app.orchestrator.drain(), self.app.requests.wait()) };
        if timeout(self.server.drain, running).await.is_err() {
            tracing::warn!("some turns were still running; they are recovered at the next start");
        }
        self.close_store().await;
    }

    /// Ends the agents, makes everything durable that was promised, and leaves a tidy store.
    pub(crate) async fn close_store(self) {
        self.app.hosting.close().await;
        // The last refusals are written once nobody can be refused any more.
        drop(self.app);
        self.background.close();
        if timeout(LAST_WRITES, self.background.wait()).await.is_err() {
            tracing::warn!("some refusals were not audited in time");
        }
        self.store.close().await;
        drop(self.place);
    }
}

/// Where repositories may be. A root that is not there yet may still be mounted.
fn workspaces(home: &Home, settings: &Settings) -> WorkspaceRoot {
    let root = settings.workspace.root.as_ref().map(PathBuf::from);
    if let Some(root) = root.as_ref().filter(|root| !root.is_dir()) {
        tracing::warn!(root = %root.display(), "the workspace root is not a directory");
    }
    WorkspaceRoot::new(root).trusting(home.trusted_file())
}

/// The first run makes the owner and their token; a token file that was lost is replaced.
async fn leave_token(home: &Home, people: &People) -> Result<(), Failure> {
    let refused = |error: skein_core::Error| {
        Failure::new(Exit::Unavailable, "the owner's token cannot be made").because(error)
    };
    let unusable = |error: std::io::Error| {
        let file = home.token_file();
        Failure::new(Exit::Unavailable, format!("cannot use {}", file.display())).because(error)
    };
    let issued = match people.bootstrap().await.map_err(refused)? {
        Some(issued) => issued,
        None if home.read_token().map_err(unusable)?.is_some() => return Ok(()),
        None => people.reissue_owner_token().await.map_err(refused)?,
    };
    match issued.secret {
        Some(secret) => home.write_token(&secret).map_err(unusable),
        None => Ok(()),
    }
}

fn server_settings(settings: &Settings) -> ServerSettings {
    let limits = &settings.limits;
    // One second's worth at once, unless it is said otherwise.
    let rate = |per_second| Rate { per_second, burst: limits.burst.unwrap_or(per_second) };
    ServerSettings {
        listen: settings.server.listen.parse().ok(),
        allowed_hosts: settings.server.allowed_hosts.clone(),
        allowed_origins: settings.server.allowed_origins.clone(),
        body_bytes: limits.request_body_bytes,
        streams_per_user: limits.streams_per_user,
        rate_per_user: rate(limits.requests_per_second_per_user),
        rate_per_org: rate(limits.requests_per_second_per_org),
        in_flight_per_org: limits.in_flight_per_org,
        drain: Duration::from_secs(settings.server.drain_seconds),
        ..ServerSettings::default()
    }
}

fn limits(settings: &Settings) -> Limits {
    let limits = &settings.limits;
    Limits {
        instruction_bytes: limits.instruction_bytes,
        active_files: limits.active_files,
        queued_turns: limits.queued_turns,
        field_bytes: limits.field_bytes,
        metadata_bytes: limits.metadata_bytes,
    }
}

/// The configured agents, with ids that are the same after every restart.
async fn agents(home: &Home, config: &Config, platform: &Platform) -> Result<Agents, Failure> {
    let settings = &config.settings;
    let configured = settings.agents_with_defaults();
    let named = configured.iter().map(|(name, agent)| {
        let id = AgentContextId::from_uuid(platform.new_id());
        let context = AgentContext { id, name: name.clone(), version: 1 };
        (context, versions::spec(name, agent))
    });
    let scope = SystemScope::for_purpose("register agents");
    let known = platform.store.register_agents(scope, named.collect()).await;
    let known = known.map_err(|error: StoreError| {
        Failure::new(Exit::Unavailable, "the agents cannot be registered").because(error)
    })?;
    let mut ready = Vec::new();
    let mut former = FormerVersions::default();
    for context in known {
        let Some(agent) = configured.get(&context.name) else { continue };
        let Some(runtime) = runtime(home, config, &context.name, agent)? else { continue };
        former.note(&context.name, agent, &runtime);
        let (model, collection) = (agent.model.clone(), agent.collection.clone());
        ready.push(Agent { context, runtime, model, collection });
    }
    for name in settings.providers.keys() {
        if !former.has_provider(name) {
            former.note_provider(name, Arc::new(providers::connect(config, name)?));
        }
    }
    let default = default_agent(settings);
    let agents = Agents::new(ready, default).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("the default agent {default:?} cannot be used"))
    })?;
    // A default that the operator has named counts for everything.
    let for_repositories = match settings.sessions.default_agent {
        Some(_) => None,
        None => acp::for_repositories(settings),
    };
    Ok(agents.with_repositories_by(for_repositories).with_former(Box::new(former)))
}

/// Every org has them, with ids that are the same after every restart.
async fn register_conversation_contexts(
    settings: &Settings,
    platform: &Platform,
) -> Result<(), Failure> {
    let contexts =
        settings.conversation_contexts.iter().map(|(name, context)| ConversationContext {
            id: ConversationContextId::from_uuid(platform.new_id()),
            name: name.clone(),
            version: 1,
            spec: context.spec(),
            is_configured: true,
            created_at: platform.now(),
        });
    let scope = SystemScope::for_purpose("register conversation contexts");
    let known = platform.store.register_conversation_contexts(scope, contexts.collect()).await;
    known.map_err(|error: StoreError| {
        Failure::new(Exit::Unavailable, "the conversation contexts cannot be registered")
            .because(error)
    })
}

/// One arm per runtime. `None` for those that the settings' check has refused.
fn runtime(
    home: &Home,
    config: &Config,
    name: &str,
    agent: &AgentSettings,
) -> Result<Option<Arc<dyn AgentRuntime>>, Failure> {
    let Some(runtime) = agent.runtime_of(name) else { return Ok(None) };
    Ok(match runtime {
        Runtime::Echo => Some(Arc::new(Echo::new(EchoSettings {
            reply_bytes: agent.reply_bytes,
            chunks: agent.chunks,
            chunk_bytes: agent.chunk_bytes,
            coalesce: agent.coalesce,
            pause: agent.pause_ms.map(Duration::from_millis),
        }))),
        Runtime::Responses => Some(Arc::new(providers::open(config, agent)?)),
        Runtime::Local => Some(Arc::new(Local)),
        Runtime::Acp => Some(Arc::new(acp::open(home, config, (name, agent))?)),
    })
}

fn hosting(settings: &Settings) -> HostingSettings {
    let sessions = &settings.sessions;
    let minutes = |minutes: f64| Duration::try_from_secs_f64(minutes * 60.0);
    HostingSettings {
        max_active: sessions.max_active_agents,
        idle: minutes(sessions.idle_timeout_minutes).unwrap_or(Duration::MAX),
        start: Duration::from_secs(sessions.agent_start_seconds),
    }
}

fn context(settings: &Settings) -> ContextSettings {
    let context = &settings.context;
    ContextSettings {
        passages: context.passages,
        passage_tokens: context.passage_tokens,
        history_tokens: context.history_tokens,
        live_tokens: context.live_tokens,
        chain_days: settings.sessions.chain_days,
    }
}

fn budgets(settings: &Settings) -> Budgets {
    let budgets = &settings.budgets;
    Budgets {
        session_tokens: budgets.session_tokens,
        user_tokens: budgets.user_tokens,
        org_tokens: budgets.org_tokens,
        period: match budgets.period {
            Period::Always => BudgetPeriod::Always,
            Period::Month => BudgetPeriod::Month,
            Period::Day => BudgetPeriod::Day,
        },
    }
}

fn default_agent(settings: &Settings) -> &str {
    settings.sessions.default_agent.as_deref().unwrap_or("local")
}
