//! From settings to a working Skein: the one place that knows every part.

use std::{sync::Arc, time::Duration};

use skein_core::{
    agents::{Agent, Agents},
    feed::Feed,
    history::History,
    model::{AgentContext, AgentContextId, SystemScope},
    orchestrator::Orchestrator,
    people::People,
    platform::{Limits, Platform},
    ports::{AgentRuntime, Storage, StoreError},
    recovery::{self, Recovered},
    sessions::Sessions,
};
use skein_runtimes::echo::{Echo, EchoSettings};
use skein_server::{App, Lifecycle, ServerSettings};
use skein_storage::sqlite::{OpenError, SqliteOptions, SqliteStore};
use tokio_util::task::TaskTracker;

use crate::{
    commands::migrate_failure,
    config::{AgentSettings, Config, Runtime, Settings},
    failure::{Exit, Failure},
    home::Home,
    system::System,
};

/// A Skein in this process. The home's lock must be held for as long as it lives.
pub(crate) struct Instance {
    pub(crate) app: App,
    pub(crate) server: ServerSettings,
    store: Arc<SqliteStore>,
}

impl Instance {
    /// Opens the store, brings its schema up to date, and puts everything together.
    pub(crate) async fn open(home: &Home, config: &Config) -> Result<Self, Failure> {
        let store = open_store(home).await?;
        let platform = Arc::new(Platform {
            store: Arc::clone(&store) as Arc<dyn Storage>,
            feed: Arc::new(Feed::default()),
            clock: Arc::new(System),
            ids: Arc::new(System),
            secrets: Arc::new(System),
            limits: limits(&config.settings),
        });
        let people = People::new(Arc::clone(&platform));
        leave_token(home, &people).await?;
        let agents = Arc::new(agents(&config.settings, platform.as_ref()).await?);
        let orchestrator =
            Orchestrator::new(Arc::clone(&platform), Arc::clone(&agents), TaskTracker::new());
        let app = App {
            sessions: Sessions::new(Arc::clone(&platform), agents, Arc::clone(&orchestrator)),
            history: History::new(Arc::clone(&platform)),
            platform,
            orchestrator,
            people,
            lifecycle: Lifecycle::default(),
            metrics: skein_server::install_metrics().map_err(|error| {
                Failure::new(Exit::Failed, "metrics cannot be counted").because(error)
            })?,
        };
        Ok(Self { app, server: server_settings(&config.settings), store })
    }

    /// Ends what a crash cut off. Before anyone can ask about it.
    pub(crate) async fn recover(&self) -> Result<Recovered, Failure> {
        recovery::classify(&self.app.platform).await.map_err(|error| {
            Failure::new(Exit::Unavailable, "unfinished turns cannot be recovered").because(error)
        })
    }

    /// Waits a while for running turns, then closes the store. What is left is recovered at the next start.
    pub(crate) async fn close(self) {
        if tokio::time::timeout(self.server.drain, self.app.orchestrator.drain()).await.is_err() {
            tracing::warn!("some turns were still running; they are recovered at the next start");
        }
        self.close_store().await;
    }

    /// Makes everything durable that was promised, and leaves a tidy file.
    pub(crate) async fn close_store(self) {
        let store = self.store;
        if tokio::task::spawn_blocking(move || store.close()).await.is_err() {
            tracing::error!("the store did not close as it should");
        }
    }
}

async fn open_store(home: &Home) -> Result<Arc<SqliteStore>, Failure> {
    let path = home.database_file();
    let opened = tokio::task::spawn_blocking(move || {
        SqliteStore::migrate_and_open(&path, SqliteOptions::default(), Arc::new(System))
    });
    let file = home.database_file();
    let cannot = || Failure::new(Exit::Unavailable, format!("cannot open {}", file.display()));
    match opened.await {
        Ok(Ok(store)) => Ok(Arc::new(store)),
        Ok(Err(OpenError::Schema(error))) => Err(migrate_failure(error)),
        Ok(Err(error @ (OpenError::Sqlite(_) | OpenError::Threads(_)))) => {
            Err(cannot().because(error).hint("skein doctor looks for the reason"))
        }
        Err(panicked) => Err(cannot().because(panicked)),
    }
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
    ServerSettings {
        listen: settings.server.listen.parse().ok(),
        allowed_hosts: settings.server.allowed_hosts.clone(),
        allowed_origins: settings.server.allowed_origins.clone(),
        body_bytes: settings.limits.request_body_bytes,
        streams_per_user: settings.limits.streams_per_user,
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
async fn agents(settings: &Settings, platform: &Platform) -> Result<Agents, Failure> {
    let mut configured = settings.agents.clone();
    configured.entry("echo".to_owned()).or_default();
    let named = configured.iter().map(|(name, agent)| {
        let id = AgentContextId::from_uuid(platform.new_id());
        let context = AgentContext { id, name: name.clone(), version: 1 };
        (context, spec(name, agent))
    });
    let scope = SystemScope::for_purpose("register agents");
    let known = platform.store.register_agents(scope, named.collect()).await;
    let known = known.map_err(|error: StoreError| {
        Failure::new(Exit::Unavailable, "the agents cannot be registered").because(error)
    })?;
    let ready = known.into_iter().filter_map(|context| {
        let agent = configured.get(&context.name)?;
        let runtime = runtime(&context.name, agent)?;
        Some(Agent { context, runtime, model: agent.model.clone() })
    });
    let default = default_agent(settings, &configured);
    Agents::new(ready.collect(), default).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("the default agent {default:?} cannot be used"))
    })
}

/// One arm per runtime. `None` for those that the settings' check has refused.
fn runtime(name: &str, agent: &AgentSettings) -> Option<Arc<dyn AgentRuntime>> {
    match agent.runtime_of(name)? {
        Runtime::Echo => Some(Arc::new(Echo::new(EchoSettings {
            reply_bytes: agent.reply_bytes,
            chunks: agent.chunks,
            chunk_bytes: agent.chunk_bytes,
            coalesce: agent.coalesce,
        }))),
        Runtime::Local | Runtime::Responses | Runtime::Acp => None,
    }
}

/// What makes another version of an agent. Environments stay out of it: they are secrets.
fn spec(name: &str, agent: &AgentSettings) -> String {
    let shown =
        AgentSettings { env: Default::default(), runtime: agent.runtime_of(name), ..agent.clone() };
    serde_json::to_string(&shown).unwrap_or_default()
}

fn default_agent<'a>(
    settings: &'a Settings,
    configured: &std::collections::BTreeMap<String, AgentSettings>,
) -> &'a str {
    match &settings.sessions.default_agent {
        Some(name) => name,
        None if configured.contains_key("local") => "local",
        None => "echo",
    }
}
