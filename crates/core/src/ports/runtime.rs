//! What answers an instruction.

use std::sync::Arc;

use bytes::Bytes;
use futures::{
    FutureExt, StreamExt,
    future::{self, BoxFuture},
    stream::{self, BoxStream},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Lookup, ResidentRuntime};
use crate::model::{
    ChunkText, FailureCode, FileText, Mode, PermissionOption, PlanStep, SessionId, TurnId, Usage,
};

/// An agent: takes one instruction and streams what it does, ending with exactly one [`AgentUpdate::Finished`].
///
/// Durability duties: none. The orchestrator makes every update durable before anyone sees it, and has
/// made the dispatch durable before `run` is called. Dropping the stream stops the work.
pub trait AgentRuntime: Send + Sync {
    fn run(&self, request: RunRequest) -> BoxStream<'static, AgentUpdate>;

    /// For agents that live in a process of their own: these are prompted through it, and `run` is never called.
    fn residence(&self) -> Option<&dyn ResidentRuntime> {
        None
    }

    /// Whether text may be gathered into fewer, larger events.
    fn coalescing(&self) -> Coalescing {
        Coalescing::Gather
    }

    /// What the agent wants to be given beside the instruction.
    fn context(&self) -> ContextNeed {
        ContextNeed::Nothing
    }

    /// How passages are looked for; without it, by the instruction as it is.
    fn lookup(&self) -> Option<&dyn Lookup> {
        None
    }

    /// The exact body that `run` will send for this prompt, to be kept before it is sent. The same prompt
    /// always gives the same bytes. `None` for agents that send none.
    fn compose(&self, prompt: &Prompt) -> Option<Bytes> {
        let _ = prompt;
        None
    }

    /// Whether a response outlives its connection, so that [`Self::reattach`] can take it up.
    fn outlives_connections(&self) -> bool {
        false
    }

    /// Takes up a response where its updates were last durable. Nothing is dispatched.
    fn reattach(&self, request: Reattach) -> BoxStream<'static, AgentUpdate> {
        let _ = request;
        let failure = RuntimeFailure {
            code: FailureCode::Interrupted,
            message: "the agent cannot take up its work again".to_owned(),
        };
        stream::iter([AgentUpdate::Finished(AgentOutcome::Failed(failure))]).boxed()
    }

    /// Tells a provider that nobody waits for a response any more.
    fn abandon(&self, response_id: String) -> BoxFuture<'static, ()> {
        let _ = response_id;
        future::ready(()).boxed()
    }
}

/// How text chunks become events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coalescing {
    /// One event per interval or size: what people need.
    Gather,
    /// One event per chunk, for load tests.
    EveryChunk,
}

/// What an agent is given beside the instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContextNeed {
    Nothing,
    /// Passages and files, as deltas against what the provider holds.
    Conversation {
        provider: String,
        keeping: ChainKeeping,
    },
}

/// Who remembers the turns before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainKeeping {
    /// The provider, behind the id of the last response.
    Server,
    /// Nobody but Skein: the context is rebuilt for every call.
    Nobody,
}

/// One instruction for an agent.
#[derive(Debug, Clone)]
pub struct RunRequest {
    pub session: SessionId,
    pub turn: TurnId,
    pub prompt: Arc<Prompt>,
    /// What [`AgentRuntime::compose`] gave; to be sent byte by byte.
    pub body: Option<Bytes>,
    /// How often a call may be made whose reply proves that nothing ran.
    pub attempts: u32,
    /// Fires when the turn is to end early; the runtime then ends its stream soon.
    pub cancel: CancellationToken,
}

/// Everything that an agent is given for one turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    pub session: SessionId,
    pub turn: TurnId,
    pub system_prompt: Option<String>,
    pub model: Option<String>,
    pub temperature: Option<f64>,
    pub previous_response_id: Option<String>,
    /// Calls of the response before that are to be answered: what was proposed has been taken down.
    pub open_calls: Vec<String>,
    /// Oldest first; only when a conversation is rebuilt.
    pub history: Vec<PastTurn>,
    pub passages: Vec<Passage>,
    pub files: Vec<FileText>,
    pub instruction: Arc<str>,
    pub mode: Mode,
}

/// An earlier turn of a rebuilt conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastTurn {
    pub instruction: String,
    pub answer: String,
}

/// A passage as it is given to an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Passage {
    pub chunk: ChunkText,
    pub score: f64,
}

/// A response that is to be taken up again.
#[derive(Debug, Clone)]
pub struct Reattach {
    pub session: SessionId,
    pub turn: TurnId,
    pub mode: Mode,
    pub response_id: String,
    /// The provider's number of the last event whose effect is durable.
    pub after: Option<u64>,
    pub cancel: CancellationToken,
}

/// One thing that an agent did.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentUpdate {
    Text(String),
    Thought(String),
    Plan(Vec<PlanStep>),
    Tool(Box<ToolUpdate>),
    /// A question that the agent waits with.
    Permission(Box<PermissionAsk>),
    Usage(Usage),
    /// A notice for the turn's warnings.
    Warning(String),
    /// The provider's id of its response, as soon as it is known.
    Response(String),
    /// Everything up to this number of the provider's has been given as updates.
    Position(u64),
    /// Bytes of the raw response, exactly as received.
    Raw(Bytes),
    /// The arguments of a `propose_files` call, as the model wrote them.
    Proposal(String),
    /// The id of a call that the provider wants answered before the conversation can go on.
    OpenCall(String),
    Finished(AgentOutcome),
}

/// A tool call as it stands. A call is known by its id.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolUpdate {
    pub id: String,
    pub tool: String,
    pub kind: String,
    pub args: Option<Value>,
    pub result: Option<Value>,
    /// `pending`, `in_progress`, `completed` or `failed`; the last two close the call.
    pub status: String,
}

impl ToolUpdate {
    pub fn is_closed(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "failed")
    }
}

/// A question of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionAsk {
    /// Unique in the session.
    pub request_id: String,
    /// What the agent wants to do. The call may not have been told of before.
    pub tool: ToolUpdate,
    pub options: Vec<PermissionOption>,
    /// The option that a policy has taken already.
    pub decided: Option<String>,
}

/// How the work ended.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentOutcome {
    Answered,
    /// The provider does not know `previous_response_id`, and nothing ran. The calls that were made are counted.
    ChainLost {
        calls: u32,
    },
    /// The agent had to be ended before it was given the instruction; another one can be.
    Unheard(RuntimeFailure),
    Failed(RuntimeFailure),
}

/// Why an agent gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeFailure {
    pub code: FailureCode,
    /// For people, without secrets.
    pub message: String,
}
