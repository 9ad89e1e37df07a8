//! Everything between an instruction and the wire, in this process.

use std::sync::Arc;

use anyhow::Context as _;
use skein_core::{
    agents::{Agent, AgentChoice, Agents},
    feed::Feed,
    hosting::{Hosting, HostingSettings},
    intake::{self, ExecuteCommand, ExecuteRequest},
    model::{AgentContext, AgentContextId, Scope, SessionId, SystemScope},
    orchestrator::Orchestrator,
    platform::{Budgets, ContextSettings, Limits, Platform},
    policy::active_files::ActiveFile,
    ports::{AgentRuntime, Ids as _, Storage},
};
use skein_runtimes::{
    responses::{ProviderSettings, Responses},
    workspace::WorkspaceRoot,
};
use skein_storage::sqlite::{SqliteOptions, SqliteStore};
use skein_testkit::{
    FixedSecrets, ScriptedRetriever, SeededIds, StoppedClock, World, responses::ResponsesServer,
};
use tempfile::TempDir;
use tokio_util::task::TaskTracker;

use crate::arguments::RunArguments;

const AGENT: &str = "model";
const MODEL: &str = "test-model";

pub(super) struct Desk {
    world: World,
    pub(super) provider: ResponsesServer,
    pub(super) runtime: Arc<dyn AgentRuntime>,
    pub(super) retriever: Arc<ScriptedRetriever>,
    pub(super) orchestrator: Arc<Orchestrator>,
    /// Removed with the desk.
    _home: TempDir,
}

impl Desk {
    pub(super) async fn new(arguments: &RunArguments) -> anyhow::Result<Self> {
        skein_runtimes::install_tls();
        let provider = ResponsesServer::start().await;
        let settings = ProviderSettings {
            key: Some(provider.key().to_owned().into()),
            allow_private: true,
            ..ProviderSettings::new("double", provider.base_url())
        };
        let runtime: Arc<dyn AgentRuntime> = Arc::new(Responses::new(settings)?);
        let home = tempfile::Builder::new().prefix("desk-").tempdir_in(&arguments.data)?;
        let clock = Arc::new(StoppedClock::default());
        let file = home.path().join("skein.db");
        let options = SqliteOptions::default();
        let store: Arc<dyn Storage> =
            Arc::new(SqliteStore::migrate_and_open(&file, options, Arc::clone(&clock) as _)?);
        let world = World::new(Arc::clone(&store)).await;
        let retriever = Arc::new(ScriptedRetriever::default());
        let ids = Arc::new(SeededIds::new(7));
        let agents = Arc::new(agents(&store, &ids, Arc::clone(&runtime)).await?);
        let platform = Arc::new(Platform {
            store,
            feed: Arc::new(Feed::default()),
            clock,
            ids,
            secrets: Arc::new(FixedSecrets::default()),
            workspaces: Arc::new(WorkspaceRoot::new(None)),
            retriever: Arc::clone(&retriever) as _,
            limits: Limits::default(),
            context: ContextSettings::default(),
            budgets: Budgets::default(),
            path_escapes: Default::default(),
        });
        let settings = HostingSettings::default();
        let (hosting, _) = Hosting::new(Arc::clone(&platform), Arc::clone(&agents), settings);
        let orchestrator = Orchestrator::new(platform, agents, hosting, TaskTracker::new());
        Ok(Self { world, provider, runtime, retriever, orchestrator, _home: home })
    }

    pub(super) fn scope(&self) -> Scope {
        self.world.as_owner()
    }
}

/// An instruction with files, as it is after intake.
pub(super) fn command(
    session: Option<SessionId>,
    instruction: &str,
    active_files: Vec<ActiveFile>,
) -> anyhow::Result<ExecuteCommand> {
    let request = ExecuteRequest {
        agent: AgentChoice::Named(AGENT.to_owned()),
        session,
        instruction: instruction.to_owned(),
        active_files,
        ..ExecuteRequest::default()
    };
    Ok(intake::normalize(request, &Limits::default())?)
}

async fn agents(
    store: &Arc<dyn Storage>,
    ids: &SeededIds,
    runtime: Arc<dyn AgentRuntime>,
) -> anyhow::Result<Agents> {
    let id = AgentContextId::from_uuid(ids.next());
    let proposed = AgentContext { id, name: AGENT.to_owned(), version: 1 };
    let purpose = SystemScope::for_purpose("bench");
    let known = store.register_agents(purpose, vec![(proposed, "{}".to_owned())]).await?;
    let context = known.into_iter().find(|context| context.name == AGENT);
    let context = context.context("the agent was not registered")?;
    let agent = Agent { context, runtime, model: Some(MODEL.to_owned()), collection: None };
    Agents::new(vec![agent], AGENT).context("the agent has no name")
}
