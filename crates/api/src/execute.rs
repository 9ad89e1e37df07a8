//! One call from instruction to answer.

use serde::{Deserialize, Serialize};
use skein_core::{
    Error,
    intake::{ClientShape, ExecuteRequest},
    model::{
        self, AgentContextId, ChainDecision, ChunkFate, ConversationContextId, Mode, RepoId,
        SessionId, TurnState,
    },
    orchestrator::{AnswerText, Executed},
    policy::active_files,
};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{Id, Members, RetrievalScope, session_requests::agent_choice};

/// An instruction in any client's shape. Only `instruction` is needed.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Execute {
    pub client: Option<Client>,
    /// The agent by its name.
    pub agent: Option<String>,
    /// The agent by its context id, instead of `agent`.
    #[schema(value_type = Option<Uuid>)]
    pub agent_context_id: Option<Id<AgentContextId>>,
    #[schema(value_type = Option<Uuid>)]
    pub conversation_context_id: Option<Id<ConversationContextId>>,
    /// Left out: a new session.
    #[schema(value_type = Option<Uuid>)]
    pub session_id: Option<Id<SessionId>>,
    #[schema(min_length = 1)]
    pub instruction: String,
    pub mode: Option<AgentMode>,
    pub model: Option<String>,
    #[schema(minimum = 0.0, maximum = 2.0)]
    pub temperature: Option<f64>,
    pub workspace_id: Option<String>,
    /// A repository's name.
    pub repo: Option<String>,
    #[schema(value_type = Option<Uuid>)]
    pub repo_id: Option<Id<RepoId>>,
    #[schema(value_type = Option<RetrievalScope>)]
    pub scope: Option<Members<RetrievalScope>>,
    pub language: Option<String>,
    #[schema(value_type = Option<Vec<ActiveFile>>, max_items = 200)]
    pub active_files: Option<Vec<Members<ActiveFile>>>,
    pub on_busy: Option<OnBusy>,
}

/// The kind of client that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Client {
    #[default]
    Browser,
    Cli,
    Thick,
}

/// What is wanted: an answer, or files to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentMode {
    Ask,
    Edit,
}

/// What is to happen when a turn of the session is still pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnBusy {
    #[default]
    Reject,
    Enqueue,
}

/// A file that the caller has at hand.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActiveFile {
    /// Relative to the workspace.
    #[schema(min_length = 1)]
    pub path: String,
    /// May be left out only above 102,400 bytes.
    pub content: Option<String>,
    /// SHA-256 in lower-case hex.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub content_hash: Option<String>,
    /// Of the content, if that is given.
    pub size_bytes: Option<u64>,
    pub is_touched: Option<bool>,
    pub is_open: Option<bool>,
    pub is_named: Option<bool>,
}

/// What came of an instruction.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecuteResponse {
    /// `answer`, or `error` when the turn failed.
    #[schema(example = "answer")]
    pub kind: &'static str,
    pub session_id: Uuid,
    pub turn_id: Uuid,
    pub conversation_id: Uuid,
    /// The full answer.
    pub text: Option<String>,
    pub sources: Vec<Source>,
    pub file_bundle: Option<FileBundle>,
    pub warnings: Vec<String>,
    pub error_code: Option<&'static str>,
    pub error_message: Option<String>,
    pub usage: Option<Usage>,
    pub context: SentContext,
}

/// A passage that the answer rests on.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    pub chunk_id: String,
    pub path: String,
    pub start_line: u32,
    pub end_line: u32,
    pub content_hash: String,
    pub score: f64,
}

/// Files that an agent in edit mode wants written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FileBundle {
    pub files: Vec<FileChange>,
}

/// One file to be created, updated or deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChange {
    pub path: String,
    pub action: String,
    pub base_hash: Option<String>,
    pub content: Option<String>,
    pub diff: Option<String>,
}

/// What was sent, and what the chain saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SentContext {
    /// Bytes of the instruction and of the files that went along.
    pub bytes_sent: u64,
    /// Bytes that the agent had already.
    pub bytes_saved: u64,
    /// start, continue or rehydrate.
    pub chain: &'static str,
}

/// Tokens as the provider counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
}

impl TryFrom<Execute> for ExecuteRequest {
    type Error = Error;

    fn try_from(request: Execute) -> Result<Self, Error> {
        if request.temperature.is_some_and(|value| !(0.0..=2.0).contains(&value)) {
            let reason = "must be between 0 and 2".to_owned();
            return Err(Error::Invalid { field: "temperature", reason });
        }
        let files = request.active_files.unwrap_or_default();
        Ok(Self {
            client: request.client.unwrap_or_default().into(),
            agent: agent_choice(request.agent, request.agent_context_id)?,
            conversation_context: request.conversation_context_id.map(|id| id.0),
            session: request.session_id.map(|id| id.0),
            instruction: request.instruction,
            mode: request.mode.map(Into::into),
            model: request.model,
            temperature: request.temperature,
            workspace_id: request.workspace_id,
            repo: request.repo,
            repo_id: request.repo_id.map(|id| id.0),
            scope_paths: request.scope.unwrap_or_default().0.paths,
            language: request.language,
            active_files: files.into_iter().map(|file| file.0.into()).collect(),
            on_busy: request.on_busy.unwrap_or_default().into(),
        })
    }
}

impl From<Client> for ClientShape {
    fn from(client: Client) -> Self {
        match client {
            Client::Browser => Self::Browser,
            Client::Cli => Self::Cli,
            Client::Thick => Self::Thick,
        }
    }
}

impl From<AgentMode> for Mode {
    fn from(mode: AgentMode) -> Self {
        match mode {
            AgentMode::Ask => Self::Ask,
            AgentMode::Edit => Self::Edit,
        }
    }
}

impl From<OnBusy> for skein_core::intake::OnBusy {
    fn from(on_busy: OnBusy) -> Self {
        match on_busy {
            OnBusy::Reject => Self::Reject,
            OnBusy::Enqueue => Self::Enqueue,
        }
    }
}

impl From<ActiveFile> for active_files::ActiveFile {
    fn from(file: ActiveFile) -> Self {
        Self {
            path: file.path,
            content: file.content,
            content_hash: file.content_hash,
            size_bytes: file.size_bytes,
            is_touched: file.is_touched.unwrap_or(false),
            is_open: file.is_open.unwrap_or(false),
            is_named: file.is_named.unwrap_or(false),
        }
    }
}

impl From<model::Usage> for Usage {
    fn from(usage: model::Usage) -> Self {
        Self { input_tokens: usage.input_tokens, output_tokens: usage.output_tokens }
    }
}

impl ExecuteResponse {
    /// `instruction_bytes` is the size of the whole instruction, of which a turn keeps a summary only. An answer that is not
    /// at hand is left empty, for [`Self::around_text`].
    pub fn new(executed: Executed, instruction_bytes: u64) -> Self {
        let turn = executed.turn;
        let context = SentContext::new(&turn, instruction_bytes);
        let sources = sources(&turn);
        let (kind, error_code, error_message, response) = match turn.state {
            TurnState::Failed(failure) => (
                "error",
                Some(failure.code.as_str()),
                Some(failure.errors.join("\n")),
                failure.response,
            ),
            TurnState::Completed(answer) => ("answer", None, None, answer.response),
            TurnState::Pending => ("answer", None, None, model::Response::default()),
        };
        Self {
            kind,
            session_id: *executed.session.as_uuid(),
            turn_id: *turn.id.as_uuid(),
            conversation_id: *turn.request.conversation.as_uuid(),
            text: executed.answer.map(|answer| match answer {
                AnswerText::Here(text) => text.as_ref().to_owned(),
                AnswerText::Stored(_) => String::new(),
            }),
            sources,
            file_bundle: executed.bundle.map(|bundle| bundle.as_ref().into()),
            warnings: turn.warnings,
            error_code,
            error_message,
            usage: response.usage.map(Usage::from),
            context,
        }
    }
}

impl ExecuteResponse {
    /// The JSON before and after the content of an empty text, which is too long to be held.
    pub fn around_text(&self) -> Result<(Vec<u8>, Vec<u8>), serde_json::Error> {
        const EMPTY: &[u8] = br#""text":"""#;

        let mut before = serde_json::to_vec(self)?;
        // Nothing that stands before the field can contain it: names and ids.
        let found = before.windows(EMPTY.len()).position(|bytes| bytes == EMPTY);
        let at = found.map_or(before.len(), |at| at + EMPTY.len() - 1);
        let after = before.split_off(at);
        Ok((before, after))
    }
}

impl SentContext {
    /// An agent without a plan got the instruction alone; a turn that did not start, nothing.
    pub(crate) fn new(turn: &model::Turn, instruction_bytes: u64) -> Self {
        match &turn.plan {
            Some(plan) => Self {
                bytes_sent: plan.sent.bytes,
                bytes_saved: plan.saved.bytes,
                chain: plan.chain.decision.as_str(),
            },
            None => Self {
                bytes_sent: if turn.started_at.is_some() { instruction_bytes } else { 0 },
                bytes_saved: 0,
                chain: ChainDecision::Start.as_str(),
            },
        }
    }
}

/// The passages that the agent had at hand: those of this turn, and those that its chain held already.
fn sources(turn: &model::Turn) -> Vec<Source> {
    let chunks = turn.plan.iter().flat_map(|plan| &plan.chunks);
    let source = |chunk: &model::TurnChunk| Source {
        chunk_id: chunk.chunk_id.clone(),
        path: chunk.path.clone(),
        start_line: chunk.start_line,
        end_line: chunk.end_line,
        content_hash: chunk.sha256.to_string(),
        score: chunk.score,
    };
    chunks.filter(|chunk| is_at_hand(chunk)).map(source).collect()
}

pub(crate) fn is_at_hand(chunk: &model::TurnChunk) -> bool {
    match chunk.fate {
        ChunkFate::New | ChunkFate::AlreadyInChain => true,
        ChunkFate::StaleLocalVersion | ChunkFate::OverBudget => false,
    }
}

impl From<&model::FileBundle> for FileBundle {
    fn from(bundle: &model::FileBundle) -> Self {
        Self { files: bundle.files.iter().map(FileChange::from).collect() }
    }
}

impl From<&model::FileChange> for FileChange {
    fn from(change: &model::FileChange) -> Self {
        Self {
            path: change.path.clone(),
            action: change.action.as_str().to_owned(),
            base_hash: change.base_hash.map(|hash| hash.to_string()),
            content: change.content.clone(),
            diff: change.diff.clone(),
        }
    }
}
