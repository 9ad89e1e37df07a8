//! A place to come back to: a position in the log plus agent state, never a copy of history.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CheckpointId, Seq, SessionId, Timestamp};

/// What a suspended session needs to go on.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    pub id: CheckpointId,
    pub session: SessionId,
    /// The last event that the checkpoint covers.
    pub seq: Seq,
    pub reason: String,
    pub state: CheckpointState,
    pub at: Timestamp,
}

/// Stored compressed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointState {
    /// What the agent itself wants back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_state: Option<Value>,
    /// What whoever suspended the session wants back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension_data: Option<Value>,
}
