//! One canonical input for the orchestrator, whatever client sent it.

use crate::{
    Error,
    agents::AgentChoice,
    model::{ConversationContextId, Interface, Mode, RepoId, SessionId, TurnId},
    platform::Limits,
    policy::{
        active_files::{self, ActiveFile},
        delta::GivenFile,
        text::{check_instruction, check_model, check_optional, check_scope},
    },
    sessions::NewSession,
};

/// The shape that a client sent. Nothing below the intake knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientShape {
    #[default]
    Browser,
    Cli,
    Thick,
}

/// What is to happen when a turn of the session is still pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBusy {
    #[default]
    Reject,
    Enqueue,
}

/// A request as a client made it. Every field is allowed in every shape; only the instruction is needed.
#[derive(Debug, Clone, Default)]
pub struct ExecuteRequest {
    pub client: ClientShape,
    pub agent: AgentChoice,
    pub conversation_context: Option<ConversationContextId>,
    pub session: Option<SessionId>,
    pub instruction: String,
    pub mode: Option<Mode>,
    pub model: Option<String>,
    pub temperature: Option<f64>,
    pub workspace_id: Option<String>,
    pub repo: Option<String>,
    pub repo_id: Option<RepoId>,
    pub scope_paths: Vec<String>,
    pub language: Option<String>,
    pub active_files: Vec<ActiveFile>,
    pub on_busy: OnBusy,
}

/// What the orchestrator works on: the same for every client.
#[derive(Debug, Clone)]
pub struct ExecuteCommand {
    pub target: Target,
    pub instruction: String,
    pub mode: Mode,
    pub model: Option<String>,
    pub temperature: Option<f64>,
    pub workspace_id: Option<String>,
    pub repo: Option<String>,
    pub language: Option<String>,
    pub scope_paths: Vec<String>,
    pub files: Vec<GivenFile>,
    pub on_busy: OnBusy,
    /// The turn whose instruction is run again.
    pub rerun_of: Option<TurnId>,
}

/// Where the turn belongs.
#[derive(Debug, Clone)]
pub enum Target {
    /// A session that exists; what is named here applies from this turn on.
    Session(SessionId, Rebind),
    /// A session made for this instruction, in the same commit as its first turn.
    New(Box<NewSession>),
}

/// What a request with a session names beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rebind {
    /// [`AgentChoice::Default`] leaves the session's agent as it is.
    pub agent: AgentChoice,
    pub conversation_context: Option<ConversationContextId>,
    /// A session keeps its repository; naming another one is refused.
    pub repo_id: Option<RepoId>,
}

/// Normalises a request of any shape.
pub fn normalize(request: ExecuteRequest, limits: &Limits) -> Result<ExecuteCommand, Error> {
    check_instruction(&request.instruction, limits.instruction_bytes)?;
    check_model(request.model.as_deref(), limits.field_bytes)?;
    check_optional("workspaceId", request.workspace_id.as_deref(), limits.field_bytes)?;
    check_optional("repo", request.repo.as_deref(), limits.field_bytes)?;
    check_optional("language", request.language.as_deref(), limits.field_bytes)?;
    check_scope(&request.scope_paths, limits.field_bytes)?;
    let files = active_files::check(request.active_files, limits.active_files)?;
    let target = match request.session {
        Some(session) => Target::Session(
            session,
            Rebind {
                agent: request.agent,
                conversation_context: request.conversation_context,
                repo_id: request.repo_id,
            },
        ),
        None => Target::New(Box::new(NewSession {
            agent: request.agent,
            conversation_context: request.conversation_context,
            interface: interface_of(request.client),
            workspace_id: request.workspace_id.clone(),
            repo: request.repo.clone(),
            repo_id: request.repo_id,
            scope_paths: request.scope_paths.clone(),
            default_language: request.language.clone(),
            ..NewSession::default()
        })),
    };
    Ok(ExecuteCommand {
        target,
        instruction: request.instruction,
        mode: request.mode.unwrap_or(Mode::Ask),
        model: request.model,
        temperature: request.temperature,
        workspace_id: request.workspace_id,
        repo: request.repo,
        language: request.language,
        scope_paths: request.scope_paths,
        files,
        on_busy: request.on_busy,
        rerun_of: None,
    })
}

fn interface_of(client: ClientShape) -> Interface {
    match client {
        ClientShape::Browser => Interface::Web,
        ClientShape::Cli => Interface::Cli,
        ClientShape::Thick => Interface::Api,
    }
}
