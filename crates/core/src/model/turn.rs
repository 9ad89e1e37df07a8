//! The turn: one instruction and its outcome, immutable once finished.

use serde::{Deserialize, Serialize};

use super::{
    InvalidTransition, LogId, OrgId, PayloadId, SendPlan, SessionId, Sha256Hash, TicketId,
    Timestamp, TurnId, UserId, named_enum,
};

/// One instruction and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    pub id: TurnId,
    pub org: OrgId,
    pub log: LogId,
    /// The session's order: 1, 2, 3 …, given by the store.
    pub number: u32,
    pub created_by: UserId,
    /// The session's task.
    pub ticket: TicketId,
    pub created_at: Timestamp,
    /// None while the turn waits behind another one.
    pub started_at: Option<Timestamp>,
    /// Durable before the agent is called, so that nothing is ever sent twice.
    pub dispatched_at: Option<Timestamp>,
    pub request: TurnRequest,
    /// What was given to the agent. None before the turn is planned, and for agents that take the instruction alone.
    pub plan: Option<Box<SendPlan>>,
    pub warnings: Vec<String>,
    pub state: TurnState,
}

/// What was asked, and with what at hand.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRequest {
    pub mode: Mode,
    /// Groups related calls; the session's id.
    pub conversation: SessionId,
    pub instruction_summary: String,
    pub instruction: PayloadId,
    /// What was settled on, once the turn is planned.
    pub model: Option<String>,
    pub temperature: Option<f64>,
    pub asked: Asked,
    pub previous_response_id: Option<String>,
    /// The raw body as it was sent to the provider.
    pub request_payload: Option<PayloadId>,
    pub rerun_of: Option<TurnId>,
    pub workspace_id: Option<String>,
    pub repo: Option<String>,
    pub language: Option<String>,
    /// Path patterns that retrieval was limited to.
    pub scope_paths: Vec<String>,
    pub files: Vec<TurnFile>,
    /// The contents of the files, as [`SentTexts`](super::SentTexts), for a turn that had to wait.
    pub inputs: Option<PayloadId>,
}

/// What the request itself named, before its contexts were looked at.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Asked {
    pub model: Option<String>,
    pub temperature: Option<f64>,
}

/// An active file as it was when the turn was planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnFile {
    pub path: String,
    /// [`Sha256Hash::UNKNOWN`] of a file that is too large to send, when the caller did not tell.
    pub sha256: Sha256Hash,
    pub size_bytes: u64,
    pub is_touched: bool,
    pub is_open: bool,
    pub is_named: bool,
    pub fate: FileFate,
    pub reason: String,
}

impl TurnFile {
    /// None when the caller did not tell.
    pub fn known_hash(&self) -> Option<Sha256Hash> {
        Some(self.sha256).filter(|hash| *hash != Sha256Hash::UNKNOWN)
    }
}

named_enum! {
    /// What became of an active file.
    FileFate, "file fate" {
        Sent = "sent",
        Unchanged = "unchanged",
        TooLarge = "too_large",
        Binary = "binary",
        /// The agent takes no files.
        NotUsed = "not_used",
        /// The turn waits; what becomes of the file is decided when it starts.
        Waiting = "waiting",
    }
}

named_enum! {
    /// What is wanted: an answer, or files to write.
    Mode, "mode" {
        Ask = "ask",
        Edit = "edit",
    }
}

/// States carry their data, so an illegal turn cannot be built.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnState {
    Pending,
    Completed(Answer),
    Failed(Failure),
}

named_enum! {
    /// A turn's state without its data.
    TurnStatus, "turn status" {
        Pending = "pending",
        Completed = "completed",
        Failed = "failed",
    }
}

/// A successful outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// When the response was received.
    pub at: Timestamp,
    pub summary: String,
    pub text: PayloadId,
    /// A [`FileBundle`](super::FileBundle) as JSON, in edit mode.
    pub bundle: Option<PayloadId>,
    pub response: Response,
}

/// An unsuccessful outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// When the response was received, or the failure observed.
    pub at: Timestamp,
    pub code: FailureCode,
    /// For people; never empty.
    pub errors: Vec<String>,
    pub response: Response,
}

/// What the provider told about its response, as far as it got.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Response {
    pub id: Option<String>,
    pub first_token_at: Option<Timestamp>,
    pub received_at: Option<Timestamp>,
    pub chain_expires_at: Option<Timestamp>,
    /// The raw body as it was received.
    pub payload: Option<PayloadId>,
    pub usage: Option<Usage>,
}

/// Tokens as the provider counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
}

impl Usage {
    /// More than any model reads or writes at once; sums of it fit into what a store counts with.
    const MAX_TOKENS: u64 = 1 << 40;

    /// Numbers from outside, within bounds.
    pub fn bounded(self) -> Self {
        Self {
            input_tokens: self.input_tokens.min(Self::MAX_TOKENS),
            output_tokens: self.output_tokens.min(Self::MAX_TOKENS),
        }
    }
}

named_enum! {
    /// Why a turn failed, for programs.
    FailureCode, "failure code" {
        AgentExited = "agent_exited",
        AgentInitTimeout = "agent_init_timeout",
        AgentTimeout = "agent_timeout",
        AgentProtocolError = "agent_protocol_error",
        AgentAuthRequired = "agent_auth_required",
        AgentUnavailable = "agent_unavailable",
        ConfinementUnavailable = "confinement_unavailable",
        ProviderError = "provider_error",
        ProviderTimeout = "provider_timeout",
        Interrupted = "interrupted",
        Cancelled = "cancelled",
        BudgetExceeded = "budget_exceeded",
    }
}

impl TurnState {
    pub fn status(&self) -> TurnStatus {
        match self {
            Self::Pending => TurnStatus::Pending,
            Self::Completed(_) => TurnStatus::Completed,
            Self::Failed(_) => TurnStatus::Failed,
        }
    }
}

impl Turn {
    /// Records the agent's answer.
    pub fn complete(self, answer: Answer) -> Result<Self, InvalidTransition> {
        self.finish(TurnState::Completed(answer))
    }

    /// Records why there is no answer.
    pub fn fail(self, failure: Failure) -> Result<Self, InvalidTransition> {
        self.finish(TurnState::Failed(failure))
    }

    /// When the status last changed: the outcome's time, or the creation.
    pub fn status_at(&self) -> Timestamp {
        match &self.state {
            TurnState::Pending => self.created_at,
            TurnState::Completed(answer) => answer.at,
            TurnState::Failed(failure) => failure.at,
        }
    }

    /// Whether the turn has its outcome and will never change again.
    pub fn status_is_final(&self) -> bool {
        self.state != TurnState::Pending
    }

    /// Whether the turn still waits behind another one.
    pub fn is_queued(&self) -> bool {
        self.started_at.is_none() && self.state == TurnState::Pending
    }

    /// The only place where a turn leaves `Pending`.
    fn finish(self, outcome: TurnState) -> Result<Self, InvalidTransition> {
        match self.state {
            TurnState::Pending => Ok(Self { state: outcome, ..self }),
            TurnState::Completed(_) | TurnState::Failed(_) => Err(InvalidTransition {
                entity: "turn",
                id: *self.id.as_uuid(),
                from: self.state.status().as_str(),
                to: outcome.status().as_str(),
            }),
        }
    }
}
