//! The sections of `config.toml` and their defaults. Names that are not listed here are refused.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use skein_core::platform;

use super::conversations::ConversationSettings;

/// Everything that can be set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    pub(crate) server: Server,
    pub(crate) store: Store,
    pub(crate) payloads: Payloads,
    pub(crate) sessions: Sessions,
    pub(crate) limits: Limits,
    pub(crate) log: Log,
    pub(crate) agents: BTreeMap<String, AgentSettings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) redis: Option<Redis>,
    pub(crate) retrieval: Retrieval,
    pub(crate) workspace: Workspace,
    pub(crate) providers: BTreeMap<String, Provider>,
    pub(crate) conversation_contexts: BTreeMap<String, ConversationSettings>,
    pub(crate) context: Context,
    pub(crate) budgets: Budgets,
}

/// Where and how the server listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Server {
    /// Address and port; loopback unless somebody says otherwise.
    pub(crate) listen: String,
    /// Host names beside loopback ones and the address itself that requests may be made to.
    pub(crate) allowed_hosts: Vec<String>,
    /// Origins beside the server's own that pages may come from, as `https://name[:port]`.
    pub(crate) allowed_origins: Vec<String>,
    /// How long running turns may go on after the server was asked to stop.
    pub(crate) drain_seconds: u64,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7534".to_owned(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            drain_seconds: 25,
        }
    }
}

/// Where sessions are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Store {
    /// `sqlite`, or `postgres://role@host/database` with a role that row-level security binds.
    pub(crate) url: String,
    /// The same database as the owner of its tables. Only `skein migrate` uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) migrate_url: Option<String>,
    /// Connections to PostgreSQL at most.
    pub(crate) connections: usize,
}

impl Default for Store {
    fn default() -> Self {
        Self { url: "sqlite".to_owned(), migrate_url: None, connections: 32 }
    }
}

impl Store {
    pub(crate) fn is_postgres(&self) -> bool {
        is_postgres(&self.url)
    }

    /// The role that `url` logs in as.
    pub(crate) fn role(&self) -> Option<String> {
        let (_, rest) = self.url.split_once("://")?;
        let (user_info, _) = rest.split('/').next()?.rsplit_once('@')?;
        let role = user_info.split(':').next().filter(|role| !role.is_empty())?;
        percent_decode_str(role).decode_utf8().ok().map(Into::into)
    }
}

pub(super) fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// Where full texts are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Payloads {
    pub(crate) url: String,
}

impl Default for Payloads {
    fn default() -> Self {
        Self { url: "db".to_owned() }
    }
}

/// How sessions live.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Sessions {
    /// Answers when a request names no agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) default_agent: Option<String>,
    pub(crate) max_active_agents: u32,
    pub(crate) idle_timeout_minutes: f64,
    pub(crate) chain_days: u32,
    /// How long an agent process may take to open its session.
    pub(crate) agent_start_seconds: u64,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            default_agent: None,
            max_active_agents: 5,
            idle_timeout_minutes: 30.0,
            chain_days: 30,
            agent_start_seconds: 60,
        }
    }
}

/// Bounds on what callers may send and hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    pub(crate) request_body_bytes: usize,
    pub(crate) instruction_bytes: usize,
    pub(crate) active_files: usize,
    pub(crate) queued_turns: u32,
    pub(crate) streams_per_user: usize,
    pub(crate) requests_per_second_per_user: u32,
    pub(crate) requests_per_second_per_org: u32,
    /// Requests that may come at once after a pause; left out: as many as in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) burst: Option<u32>,
    /// Requests of one organisation that are worked on at the same time.
    pub(crate) in_flight_per_org: usize,
    /// Name, description and the like.
    pub(crate) field_bytes: usize,
    pub(crate) metadata_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let core = platform::Limits::default();
        Self {
            request_body_bytes: 32 * 1024 * 1024,
            instruction_bytes: core.instruction_bytes,
            active_files: core.active_files,
            queued_turns: core.queued_turns,
            streams_per_user: 1_000,
            requests_per_second_per_user: 20_000,
            requests_per_second_per_org: 40_000,
            burst: None,
            in_flight_per_org: 1_000,
            field_bytes: core.field_bytes,
            metadata_bytes: core.metadata_bytes,
        }
    }
}

/// What is written to stderr.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    /// As in `RUST_LOG`; the variable `SKEIN_LOG` is stronger.
    pub(crate) filter: String,
    pub(crate) format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        let filter = "warn,skein=info,skein_core=info,skein_server=info,skein_storage=info";
        Self { filter: filter.to_owned(), format: LogFormat::Text }
    }
}

/// One line per record, for people or for machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Agents that exist without configuration.
pub(super) const BUILT_IN_AGENTS: &[&str] = &["echo", "local"];

/// A configured agent. Which settings matter depends on the runtime.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AgentSettings {
    /// May be left out for agents that exist without configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runtime: Option<Runtime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// Where its passages are looked for, when not everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) collection: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reply_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) chunks: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) chunk_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) coalesce: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pause_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) provider: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) command: Vec<String>,
    /// Values here are secrets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) permissions: Option<PermissionChoice>,
    /// By the names of repositories, instead of `permissions`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) repository_permissions: BTreeMap<String, PermissionChoice>,
    /// A question that nobody has answered by then is called off; left out: the turn's own time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) permission_timeout_minutes: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) read_paths: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) home: Option<HomeChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) network: Option<NetworkChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) confinement: Option<ConfinementChoice>,
    /// Of one process; 8192 unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory_mib: Option<u64>,
    /// Of one process; not limited unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_seconds: Option<u64>,
    /// Of one process; 4096 unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) open_files: Option<u64>,
    /// Processes and threads together; not limited unless told, because the kernel counts them for the whole user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) processes: Option<u64>,
    /// For one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_minutes: Option<f64>,
}

/// What an agent may do without asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PermissionChoice {
    #[default]
    Ask,
    AllowReads,
    AllowAll,
}

/// What an agent takes for its user's home.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum HomeChoice {
    #[default]
    Isolated,
    User,
}

/// Whether an agent may reach other machines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NetworkChoice {
    #[default]
    Allow,
    Deny,
}

/// What happens where an agent cannot be confined as it should be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ConfinementChoice {
    #[default]
    Prefer,
    Require,
}

/// What runs an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Runtime {
    Echo,
    Local,
    Responses,
    Acp,
}

/// Wake-ups between several nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Redis {
    pub(crate) url: String,
}

/// Where passages are kept and searched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Retrieval {
    /// `embedded`: a file in the home; else the address of a Qdrant's REST interface.
    pub(crate) url: String,
    /// In Qdrant. Only one Skein may write to it.
    pub(crate) collection: String,
    /// The name of the variable that holds Qdrant's key, never the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) embeddings: Option<Embeddings>,
}

impl Default for Retrieval {
    fn default() -> Self {
        let (url, collection) = ("embedded".to_owned(), "skein".to_owned());
        Self { url, collection, key_env: None, embeddings: None }
    }
}

impl Retrieval {
    pub(crate) fn is_embedded(&self) -> bool {
        self.url == "embedded"
    }
}

/// Where vectors come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Embeddings {
    /// What stands before `/embeddings`.
    pub(crate) base_url: String,
    pub(crate) model: String,
    /// The name of the variable that holds the key, never the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_env: Option<String>,
    /// What every vector must have; left out, what the first one has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dimensions: Option<usize>,
    /// For one request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_seconds: Option<f64>,
    /// Texts in one request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) batch: Option<usize>,
}

/// Where repositories may be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Workspace {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) root: Option<String>,
}

/// A provider of the Responses API. What is left out comes from the preset of its name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Provider {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) base_url: Option<String>,
    /// The name of the variable that holds the key, never the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) chain: Option<Chain>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) background: Option<Switch>,
    /// Answers when a request, a context or an agent names no model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// Without a byte from the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idle_timeout_seconds: Option<f64>,
    /// For a whole answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_minutes: Option<f64>,
}

/// Who remembers the turns before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Chain {
    Server,
    None,
}

/// Whether something is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Switch {
    On,
    Off,
}

/// How much of what is known goes to an agent, in estimated tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Context {
    /// Passages that are looked for in a turn.
    pub(crate) passages: u32,
    pub(crate) passage_tokens: u64,
    /// What was said before, when a conversation is rebuilt.
    pub(crate) history_tokens: u64,
    /// Files and passages that were shown before, when a conversation is rebuilt.
    pub(crate) live_tokens: u64,
}

impl Default for Context {
    fn default() -> Self {
        let core = platform::ContextSettings::default();
        Self {
            passages: core.passages,
            passage_tokens: core.passage_tokens,
            history_tokens: core.history_tokens,
            live_tokens: core.live_tokens,
        }
    }
}

/// Tokens that may be used, input and output together. What is left out is not limited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Budgets {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) org_tokens: Option<u64>,
    /// Over which time the tokens of users and organisations are counted.
    pub(crate) period: Period,
}

/// In UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Period {
    #[default]
    Always,
    Month,
    Day,
}

impl Settings {
    /// The agents that are configured, those that exist without configuration, and one for each provider:
    /// it has the provider's name, unless an agent has it already.
    pub(crate) fn agents_with_defaults(&self) -> BTreeMap<String, AgentSettings> {
        let mut agents = self.agents.clone();
        for name in BUILT_IN_AGENTS {
            agents.entry((*name).to_owned()).or_default();
        }
        for (name, provider) in &self.providers {
            agents.entry(name.clone()).or_insert_with(|| AgentSettings {
                runtime: Some(Runtime::Responses),
                provider: Some(name.clone()),
                model: provider.model.clone(),
                ..AgentSettings::default()
            });
        }
        for agent in agents.values_mut().filter(|agent| agent.model.is_none()) {
            let provider = agent.provider.as_ref().and_then(|name| self.providers.get(name));
            agent.model = provider.and_then(|provider| provider.model.clone());
        }
        agents
    }
}
