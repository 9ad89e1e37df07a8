//! Messages as answers and events show them.

use serde::{Serialize, Serializer};
use serde_json::Value;
use skein_core::model::{self, MessageContent, SessionId};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{Time, payload_url};

/// What a person reads.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    pub id: Uuid,
    pub session_id: Uuid,
    pub turn_id: Option<Uuid>,
    /// The event that closed the message, or its newest delta while it is open.
    pub seq: u64,
    /// user, agent or system.
    pub role: &'static str,
    #[schema(value_type = ContentDoc)]
    pub content: Content<MessageContent>,
    pub timestamp: Time,
}

impl Message {
    pub fn new(session: SessionId, message: model::Message) -> Self {
        Self {
            id: *message.id.as_uuid(),
            session_id: *session.as_uuid(),
            turn_id: message.turn.map(|turn| *turn.as_uuid()),
            seq: message.seq,
            role: message.role.as_str(),
            content: Content(message.content),
            timestamp: message.at.into(),
        }
    }
}

/// A message's content on the wire; a text kept in a payload is named by its URL.
#[derive(Debug, Clone, PartialEq)]
pub struct Content<C>(pub C);

impl Serialize for Content<MessageContent> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Content(&self.0).serialize(serializer)
    }
}

impl Serialize for Content<&MessageContent> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            MessageContent::TextPayload { payload, partial, interrupted } => TextPayload {
                kind: "text",
                payload_url: payload_url(*payload),
                partial: *partial,
                interrupted: *interrupted,
            }
            .serialize(serializer),
            MessageContent::Text { .. }
            | MessageContent::Plan { .. }
            | MessageContent::Tool { .. }
            | MessageContent::Error { .. }
            | MessageContent::Status { .. } => self.0.serialize(serializer),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TextPayload {
    #[serde(rename = "type")]
    kind: &'static str,
    payload_url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<bool>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
}

/// The forms of a message's content. Only documents [`Content`].
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = MessageContent)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ContentDoc {
    Text {
        #[schema(required = false)]
        text: String,
        /// Instead of the text when it is long.
        #[schema(required = false)]
        payload_url: String,
        /// Only on agent messages: whether more is to come.
        #[schema(required = false)]
        partial: bool,
        /// A failure cut the message off.
        #[schema(required = false)]
        interrupted: bool,
    },
    Plan {
        steps: Vec<Step>,
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

/// One step of an agent's plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Step {
    pub content: String,
    pub status: String,
    pub priority: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skein_core::model::{MessageId, PayloadId, Role, Timestamp};

    use super::*;

    #[test]
    fn a_long_text_is_named_by_its_url() {
        let id = Uuid::from_u128(7);
        let content = MessageContent::TextPayload {
            payload: PayloadId::from_uuid(id),
            partial: Some(false),
            interrupted: false,
        };
        let message = model::Message {
            id: MessageId::from_uuid(id),
            turn: None,
            seq: 4,
            role: Role::Agent,
            content,
            at: Timestamp::from_millis(0),
        };

        let wire = serde_json::to_value(Message::new(SessionId::from_uuid(id), message)).unwrap();

        assert_eq!(
            wire,
            json!({
                "id": id,
                "sessionId": id,
                "turnId": null,
                "seq": 4,
                "role": "agent",
                "content": {"type": "text", "payloadUrl": format!("/api/payloads/{id}"), "partial": false},
                "timestamp": "1970-01-01T00:00:00.000Z",
            })
        );
    }
}
