//! What a person reads.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{MessageId, PayloadId, Seq, Timestamp, TurnId, named_enum};

named_enum! {
    /// Who speaks.
    Role, "message role" {
        User = "user",
        Agent = "agent",
        System = "system",
    }
}

/// One message of a session, assembled from its events.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub id: MessageId,
    pub turn: Option<TurnId>,
    /// The event that closed the message, or its newest delta while it is open.
    pub seq: Seq,
    pub role: Role,
    pub content: MessageContent,
    pub at: Timestamp,
}

/// The forms of document C.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MessageContent {
    Text {
        text: String,
        /// Only on agent messages: whether more is to come.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial: Option<bool>,
        /// Set when a failure cut the message off.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
    },
    /// A text too long for the log; the payload holds it.
    TextPayload {
        payload: PayloadId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial: Option<bool>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
    },
    Plan {
        steps: Vec<PlanStep>,
    },
    Tool {
        tool: String,
        args: Value,
        result: Value,
    },
    Error {
        message: String,
        code: String,
    },
    Status {
        reason: String,
    },
}

impl MessageContent {
    /// What a user wrote.
    pub fn user_text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), partial: None, interrupted: false }
    }

    /// What an agent wrote, finished.
    pub fn agent_text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), partial: Some(false), interrupted: false }
    }
}

/// One step of an agent's plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    pub content: String,
    pub status: String,
    pub priority: String,
}
