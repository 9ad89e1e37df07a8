//! What agents ask.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skein_core::{Error, model, permissions::Reply};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::Time;

/// A question of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Permission {
    pub request_id: String,
    pub turn_id: Uuid,
    pub tool_call: PermissionToolCall,
    pub options: Vec<PermissionOption>,
    pub requested_at: Time,
    /// pending, answered, cancelled or timed_out.
    #[schema(example = "pending")]
    pub state: &'static str,
    /// The person who answered.
    pub answered_by: Option<Uuid>,
}

/// What the agent wants to do.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionToolCall {
    pub tool_call_id: String,
    pub tool: String,
    #[schema(example = "edit")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub args: Option<Value>,
}

/// One possible answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionOption {
    pub option_id: String,
    pub name: String,
    #[schema(example = "allow_once")]
    pub kind: String,
}

/// An answer: one of the options, or that the question is called off.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnswerPermission {
    pub option_id: Option<String>,
    pub cancel: Option<bool>,
}

impl From<model::Permission> for Permission {
    fn from(asked: model::Permission) -> Self {
        let model::AskedTool { tool_call_id, tool, kind, args } = asked.tool_call;
        Self {
            request_id: asked.request_id,
            turn_id: *asked.turn.as_uuid(),
            tool_call: PermissionToolCall { tool_call_id, tool, kind, args },
            options: asked
                .options
                .into_iter()
                .map(|option| PermissionOption {
                    option_id: option.option_id,
                    name: option.name,
                    kind: option.kind,
                })
                .collect(),
            requested_at: asked.at.into(),
            state: asked.state.as_str(),
            answered_by: asked.answered_by.map(|user| *user.as_uuid()),
        }
    }
}

impl TryFrom<AnswerPermission> for Reply {
    type Error = Error;

    fn try_from(answer: AnswerPermission) -> Result<Self, Error> {
        match (answer.option_id, answer.cancel.unwrap_or_default()) {
            (Some(option), false) => Ok(Self::Option(option)),
            (None, true) => Ok(Self::Cancel),
            (Some(_), true) | (None, false) => {
                let reason = "give either an option or \"cancel\": true".to_owned();
                Err(Error::Invalid { field: "optionId", reason })
            }
        }
    }
}
