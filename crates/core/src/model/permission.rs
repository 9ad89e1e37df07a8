//! What an agent asks before it acts.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{SessionId, Timestamp, TurnId, UserId, named_enum};

/// A question of an agent, from its asking to its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Permission {
    pub session: SessionId,
    /// Unique in the session.
    pub request_id: String,
    pub turn: TurnId,
    pub tool_call: AskedTool,
    pub options: Vec<PermissionOption>,
    pub state: PermissionState,
    /// The person who answered; none when it was a policy, a timeout or the end of the turn.
    pub answered_by: Option<UserId>,
    pub at: Timestamp,
}

named_enum! {
    /// Leaves `pending` once.
    PermissionState, "permission state" {
        Pending = "pending",
        Answered = "answered",
        Cancelled = "cancelled",
        TimedOut = "timed_out",
    }
}

/// The tool call that the question is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AskedTool {
    pub tool_call_id: String,
    pub tool: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
}

/// One possible answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionOption {
    pub option_id: String,
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once` or `reject_always`.
    pub kind: String,
}
