//! One organisation at work with one model.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use skein_core::{
    Error,
    agents::{Agent, AgentChoice, Agents},
    feed::Feed,
    history::{History, TurnContext},
    hosting::{Hosting, HostingSettings},
    intake::{self, ExecuteRequest},
    model::{
        AgentContext, AgentContextId, PayloadId, Scope, SessionId, SystemScope, Turn, TurnState,
        Usage,
    },
    orchestrator::{Executed, Orchestrator},
    platform::{Budgets, ContextSettings, Limits, Platform},
    policy::active_files::ActiveFile,
    ports::{AgentRuntime, ChainKeeping, Ids, Storage},
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

/// Everything between an instruction and the wire, in this process.
pub(crate) struct Desk {
    pub(crate) world: World,
    pub(crate) clock: StoppedClock,
    pub(crate) provider: ResponsesServer,
    pub(crate) retriever: Arc<ScriptedRetriever>,
    pub(crate) orchestrator: Arc<Orchestrator>,
    pub(crate) history: History,
    pub(crate) store: Arc<dyn Storage>,
    /// Removed with the desk.
    _home: TempDir,
}

/// What a test changes of the usual.
#[derive(Debug, Clone)]
pub(crate) struct DeskSettings {
    pub(crate) chain: ChainKeeping,
    pub(crate) background: bool,
    pub(crate) budgets: Budgets,
    pub(crate) context: ContextSettings,
}

impl Default for DeskSettings {
    fn default() -> Self {
        Self {
            chain: ChainKeeping::Server,
            background: false,
            budgets: Budgets::default(),
            context: ContextSettings::default(),
        }
    }
}

impl Desk {
    pub(crate) async fn new() -> Self {
        Self::with(DeskSettings::default()).await
    }

    pub(crate) async fn with(settings: DeskSettings) -> Self {
        skein_runtimes::install_tls();
        let provider = match settings.chain {
            ChainKeeping::Server => ResponsesServer::start().await,
            ChainKeeping::Nobody => ResponsesServer::without_memory().await,
        };
        let home = tempfile::tempdir().unwrap();
        let clock = StoppedClock::default();
        let store = open(&home, &clock);
        let world = World::new(Arc::clone(&store)).await;
        let retriever = Arc::new(ScriptedRetriever::default());
        let (orchestrator, history) =
            assemble(&store, &clock, &retriever, (&settings, &provider)).await;
        Self { world, clock, provider, retriever, orchestrator, history, store, _home: home }
    }

    pub(crate) fn scope(&self) -> Scope {
        self.world.as_owner()
    }

    /// Runs an instruction to its end.
    pub(crate) async fn execute(&self, request: ExecuteRequest) -> Result<Executed, Error> {
        let command = intake::normalize(request, &Limits::default())?;
        self.orchestrator.execute(&self.scope(), command, None).await
    }

    /// Asks in a session, or in a new one.
    pub(crate) async fn ask(&self, session: Option<SessionId>, instruction: &str) -> Executed {
        self.execute(asking(session, instruction)).await.unwrap()
    }

    pub(crate) async fn plan(&self, request: ExecuteRequest) -> TurnContext {
        let command = intake::normalize(request, &Limits::default()).unwrap();
        self.orchestrator.dry_run(&self.scope(), &command).await.unwrap()
    }

    /// The turn as it is stored.
    pub(crate) async fn stored(&self, executed: &Executed) -> Turn {
        let (session, turn) = (executed.session, executed.turn.id);
        self.history.turn(&self.scope(), session, turn).await.unwrap().turn
    }

    pub(crate) async fn payload(&self, payload: PayloadId) -> Bytes {
        self.store.payload_body(&self.scope(), payload).await.unwrap()
    }

    /// The bodies of the requests that started a model.
    pub(crate) fn sent(&self) -> Vec<Value> {
        self.provider.dispatches().into_iter().map(|dispatch| dispatch.body).collect()
    }
}

/// An instruction for the model, and nothing else.
pub(crate) fn asking(session: Option<SessionId>, instruction: &str) -> ExecuteRequest {
    ExecuteRequest {
        agent: AgentChoice::Named("model".to_owned()),
        session,
        instruction: instruction.to_owned(),
        ..ExecuteRequest::default()
    }
}

pub(crate) fn file(path: &str, content: &str) -> ActiveFile {
    ActiveFile {
        path: path.to_owned(),
        content: Some(content.to_owned()),
        is_touched: true,
        ..ActiveFile::default()
    }
}

/// The text parts of the last message of a request, in order.
pub(crate) fn last_parts(body: &Value) -> Vec<String> {
    let input = body["input"].as_array().unwrap();
    let content = input.last().unwrap()["content"].as_array().unwrap();
    content.iter().map(|part| part["text"].as_str().unwrap().to_owned()).collect()
}

pub(crate) fn usage(turn: &Turn) -> Option<Usage> {
    match &turn.state {
        TurnState::Completed(answer) => answer.response.usage,
        TurnState::Failed(failure) => failure.response.usage,
        TurnState::Pending => None,
    }
}

fn open(home: &TempDir, clock: &StoppedClock) -> Arc<dyn Storage> {
    let file = home.path().join("skein.db");
    let clock = Arc::new(clock.clone());
    Arc::new(SqliteStore::migrate_and_open(&file, SqliteOptions::default(), clock).unwrap())
}

async fn assemble(
    store: &Arc<dyn Storage>,
    clock: &StoppedClock,
    retriever: &Arc<ScriptedRetriever>,
    (settings, provider): (&DeskSettings, &ResponsesServer),
) -> (Arc<Orchestrator>, History) {
    let ids = Arc::new(SeededIds::new(7));
    let platform = Arc::new(Platform {
        store: Arc::clone(store),
        feed: Arc::new(Feed::default()),
        clock: Arc::new(clock.clone()),
        ids: Arc::clone(&ids) as Arc<dyn Ids>,
        secrets: Arc::new(FixedSecrets::default()),
        workspaces: Arc::new(WorkspaceRoot::new(None)),
        retriever: Arc::clone(retriever) as _,
        limits: Limits::default(),
        context: settings.context.clone(),
        budgets: settings.budgets.clone(),
        path_escapes: Default::default(),
    });
    let proposed = AgentContext {
        id: AgentContextId::from_uuid(ids.next()),
        name: "model".to_owned(),
        version: 1,
    };
    let purpose = SystemScope::for_purpose("test");
    let known = store.register_agents(purpose, vec![(proposed, "{}".to_owned())]).await.unwrap();
    let context = known.into_iter().find(|context| context.name == "model").unwrap();
    let runtime = Arc::new(runtime(settings, provider)) as Arc<dyn AgentRuntime>;
    let agent = Agent { context, runtime, model: Some("gpt-test".to_owned()), collection: None };
    let agents = Arc::new(Agents::new(vec![agent], "model").unwrap());
    let settings = HostingSettings::default();
    let (hosting, _) = Hosting::new(Arc::clone(&platform), Arc::clone(&agents), settings);
    let orchestrator =
        Orchestrator::new(Arc::clone(&platform), agents, hosting, TaskTracker::new());
    (orchestrator, History::new(platform))
}

fn runtime(settings: &DeskSettings, provider: &ResponsesServer) -> Responses {
    Responses::new(ProviderSettings {
        key: Some(provider.key().to_owned().into()),
        chain: settings.chain,
        background: settings.background,
        allow_private: true,
        ..ProviderSettings::new("double", provider.base_url())
    })
    .unwrap()
}
