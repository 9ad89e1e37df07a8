//! The rows of a session's append-only log.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    AskedTool, ChainDecision, CheckpointId, FailureCode, Interface, LogId, Message, MessageContent,
    MessageId, Mode, PermissionOption, PlanStep, Role, Seq, SessionStateName, Timestamp, TurnId,
    Usage,
};

/// One durable event. It is never changed or removed while a session reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub log: LogId,
    pub seq: Seq,
    pub turn: Option<TurnId>,
    pub at: Timestamp,
    pub body: EventBody,
}

macro_rules! event_bodies {
    ($($variant:ident($data:ty) = $name:literal,)+) => {
        /// What happened. The name is stored beside the data.
        #[derive(Debug, Clone, PartialEq)]
        pub enum EventBody {
            $($variant($data),)+
        }

        impl EventBody {
            /// The type as it is stored and shown, e.g. `message.delta`.
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name),+ }
            }

            /// The data as JSON. The same value always gives the same bytes.
            pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
                match self { $(Self::$variant(data) => serde_json::to_vec(data)),+ }
            }

            /// Reads back what [`Self::name`] and [`Self::encode`] gave.
            pub fn decode(name: &str, data: &[u8]) -> Result<Self, UnknownEvent> {
                let unreadable = |error: serde_json::Error| UnknownEvent {
                    name: name.to_owned(),
                    reason: error.to_string(),
                };
                match name {
                    $($name => serde_json::from_slice(data).map(Self::$variant).map_err(unreadable),)+
                    _ => Err(UnknownEvent { name: name.to_owned(), reason: "unknown type".to_owned() }),
                }
            }
        }
    };
}

event_bodies! {
    SessionCreated(SessionChange) = "session.created",
    SessionUpdated(SessionChange) = "session.updated",
    SessionSuspended(SessionChange) = "session.suspended",
    SessionResumed(SessionChange) = "session.resumed",
    SessionCompleted(SessionChange) = "session.completed",
    SessionCancelled(SessionChange) = "session.cancelled",
    SessionFailed(SessionChange) = "session.failed",
    TurnCreated(TurnOpened) = "turn.created",
    TurnStarted(TurnOpened) = "turn.started",
    ContextPlanned(ContextPlanned) = "context.planned",
    MessageDelta(TextDelta) = "message.delta",
    MessageCompleted(MessageCompleted) = "message.completed",
    ThoughtDelta(TextDelta) = "thought.delta",
    PlanUpdated(PlanUpdated) = "plan.updated",
    ToolStarted(ToolChange) = "tool.started",
    ToolUpdated(ToolChange) = "tool.updated",
    ToolCompleted(ToolChange) = "tool.completed",
    PermissionRequested(PermissionRequested) = "permission.requested",
    PermissionResolved(PermissionResolved) = "permission.resolved",
    UsageRecorded(Usage) = "usage.recorded",
    TurnCompleted(TurnEnded) = "turn.completed",
    TurnFailed(TurnEnded) = "turn.failed",
}

/// A stored event that this version cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {name:?} cannot be read: {reason}")]
pub struct UnknownEvent {
    pub name: String,
    pub reason: String,
}

/// Data of the `session.*` events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionChange {
    pub state: SessionStateName,
    pub revision: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<Interface>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<CheckpointId>,
    /// The edited fields by their wire names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
}

/// Data of `turn.created` and `turn.started`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnOpened {
    /// 0 in a change set that creates the turn: the store fills it in.
    pub sequence_number: u32,
    /// The summary, not the whole text.
    pub instruction: String,
    pub mode: Mode,
}

/// Data of `context.planned`: the plan in numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextPlanned {
    pub chain: ChainDecision,
    pub bytes_sent: u64,
    pub bytes_saved: u64,
    /// Files that were sent.
    pub files: u32,
    /// Passages that were sent.
    pub chunks: u32,
}

/// Data of `message.delta` and `thought.delta`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TextDelta {
    pub message_id: MessageId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    pub text: String,
}

/// Data of `message.completed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageCompleted {
    pub message_id: MessageId,
    pub role: Role,
    pub content: MessageContent,
}

/// Data of `plan.updated`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanUpdated {
    pub message_id: MessageId,
    pub steps: Vec<PlanStep>,
}

/// Data of the `tool.*` events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolChange {
    pub message_id: MessageId,
    pub tool_call_id: String,
    pub tool: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    pub status: String,
}

/// Data of `permission.requested`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRequested {
    pub request_id: String,
    pub tool_call: AskedTool,
    pub options: Vec<PermissionOption>,
}

/// Data of `permission.resolved`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionResolved {
    pub request_id: String,
    /// None when the question was called off or nobody answered in time.
    pub option_id: Option<String>,
    /// A user's id, or `policy`, `timeout` or `skein`.
    pub by: String,
}

/// Data of `turn.completed` and `turn.failed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnEnded {
    pub sequence_number: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<FailureCode>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
}

impl EventBody {
    /// The message that this event closes, if it does: these rows are the readable history.
    pub fn closes_message(&self) -> Option<(MessageId, Role)> {
        match self {
            Self::MessageCompleted(message) => Some((message.message_id, message.role)),
            Self::PlanUpdated(plan) => Some((plan.message_id, Role::System)),
            Self::ToolCompleted(tool) => Some((tool.message_id, Role::System)),
            Self::SessionCreated(_)
            | Self::SessionUpdated(_)
            | Self::SessionSuspended(_)
            | Self::SessionResumed(_)
            | Self::SessionCompleted(_)
            | Self::SessionCancelled(_)
            | Self::SessionFailed(_)
            | Self::TurnCreated(_)
            | Self::TurnStarted(_)
            | Self::ContextPlanned(_)
            | Self::MessageDelta(_)
            | Self::ThoughtDelta(_)
            | Self::ToolStarted(_)
            | Self::ToolUpdated(_)
            | Self::PermissionRequested(_)
            | Self::PermissionResolved(_)
            | Self::UsageRecorded(_)
            | Self::TurnCompleted(_)
            | Self::TurnFailed(_) => None,
        }
    }

    /// Fills in the number that the store gave to a new turn.
    pub fn number_turn(&mut self, number: u32) {
        let place = if let Self::TurnCreated(opened) | Self::TurnStarted(opened) = self {
            &mut opened.sequence_number
        } else if let Self::TurnCompleted(ended) | Self::TurnFailed(ended) = self {
            &mut ended.sequence_number
        } else {
            return;
        };
        if *place == 0 {
            *place = number;
        }
    }
}

impl Event {
    /// The message that this event closes, as a person reads it.
    pub fn message(&self) -> Option<Message> {
        let (id, role) = self.body.closes_message()?;
        let content = if let EventBody::PlanUpdated(plan) = &self.body {
            MessageContent::Plan { steps: plan.steps.clone() }
        } else if let EventBody::ToolCompleted(tool) = &self.body {
            MessageContent::Tool {
                tool: tool.tool.clone(),
                args: tool.args.clone().unwrap_or(Value::Null),
                result: tool.result.clone().unwrap_or(Value::Null),
            }
        } else if let EventBody::MessageCompleted(message) = &self.body {
            message.content.clone()
        } else {
            return None;
        };
        Some(Message { id, turn: self.turn, seq: self.seq, role, content, at: self.at })
    }
}
