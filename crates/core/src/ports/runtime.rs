//! What answers an instruction.

use std::sync::Arc;

use futures::stream::BoxStream;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::model::{FailureCode, Mode, PlanStep, SessionId, TurnId, Usage};

/// An agent: takes one instruction and streams what it does, ending with exactly one [`AgentUpdate::Finished`].
///
/// Durability duties: none. The orchestrator makes every update durable before anyone sees it, and has
/// made the dispatch durable before `run` is called. Dropping the stream stops the work.
pub trait AgentRuntime: Send + Sync {
    fn run(&self, request: RunRequest) -> BoxStream<'static, AgentUpdate>;

    /// Whether text may be gathered into fewer, larger events.
    fn coalescing(&self) -> Coalescing {
        Coalescing::Gather
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

/// One instruction for an agent.
#[derive(Debug, Clone)]
pub struct RunRequest {
    pub session: SessionId,
    pub turn: TurnId,
    pub instruction: Arc<str>,
    pub mode: Mode,
    pub model: Option<String>,
    /// Fires when the turn is to end early; the runtime then ends its stream soon.
    pub cancel: CancellationToken,
}

/// One thing that an agent did.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentUpdate {
    Text(String),
    Thought(String),
    Plan(Vec<PlanStep>),
    Tool(ToolUpdate),
    Usage(Usage),
    /// A notice for the turn's warnings.
    Warning(String),
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

/// How the work ended.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentOutcome {
    Answered,
    Failed(RuntimeFailure),
}

/// Why an agent gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeFailure {
    pub code: FailureCode,
    /// For people, without secrets.
    pub message: String,
}
