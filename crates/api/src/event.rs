//! Events as every stream shows them.

use serde::{Serialize, Serializer};
use serde_json::Value;
use skein_core::model::{self, EventBody, MessageCompleted, MessageId, Role, SessionId};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{Content, Time};

/// One row of a session's log. It is written from an [`EventView`], so this type only documents it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub seq: u64,
    #[serde(rename = "type")]
    #[schema(example = "message.delta")]
    pub kind: String,
    pub session_id: Uuid,
    pub turn_id: Option<Uuid>,
    pub at: Time,
    #[schema(value_type = Object)]
    pub data: Value,
}

/// An event seen through the session that reads it; written without copying its data.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventView<'a> {
    pub seq: u64,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub session_id: Uuid,
    pub turn_id: Option<Uuid>,
    pub at: Time,
    data: Data<'a>,
}

impl<'a> EventView<'a> {
    pub fn new(session: SessionId, event: &'a model::Event) -> Self {
        Self {
            seq: event.seq,
            kind: event.body.name(),
            session_id: *session.as_uuid(),
            turn_id: event.turn.map(|turn| *turn.as_uuid()),
            at: event.at.into(),
            data: Data(&event.body),
        }
    }
}

/// The stored data is the wire's data, except that payloads become URLs.
#[derive(Debug)]
struct Data<'a>(&'a EventBody);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            EventBody::MessageCompleted(message) => {
                CompletedView::from(message).serialize(serializer)
            }
            EventBody::SessionCreated(change)
            | EventBody::SessionUpdated(change)
            | EventBody::SessionSuspended(change)
            | EventBody::SessionResumed(change)
            | EventBody::SessionCompleted(change)
            | EventBody::SessionCancelled(change)
            | EventBody::SessionFailed(change) => change.serialize(serializer),
            EventBody::TurnCreated(opened) | EventBody::TurnStarted(opened) => {
                opened.serialize(serializer)
            }
            EventBody::MessageDelta(delta) | EventBody::ThoughtDelta(delta) => {
                delta.serialize(serializer)
            }
            EventBody::PlanUpdated(plan) => plan.serialize(serializer),
            EventBody::ToolStarted(tool)
            | EventBody::ToolUpdated(tool)
            | EventBody::ToolCompleted(tool) => tool.serialize(serializer),
            EventBody::PermissionRequested(asked) => asked.serialize(serializer),
            EventBody::PermissionResolved(resolved) => resolved.serialize(serializer),
            EventBody::ContextPlanned(planned) => planned.serialize(serializer),
            EventBody::UsageRecorded(usage) => usage.serialize(serializer),
            EventBody::TurnCompleted(ended) | EventBody::TurnFailed(ended) => {
                ended.serialize(serializer)
            }
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CompletedView<'a> {
    message_id: MessageId,
    role: Role,
    content: Content<&'a model::MessageContent>,
}

impl<'a> From<&'a MessageCompleted> for CompletedView<'a> {
    fn from(message: &'a MessageCompleted) -> Self {
        Self {
            message_id: message.message_id,
            role: message.role,
            content: Content(&message.content),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skein_core::model::{LogId, MessageContent, PayloadId, TextDelta, Timestamp, TurnId};

    use super::*;

    fn event(body: EventBody) -> Value {
        let id = Uuid::from_u128(1);
        let event = model::Event {
            log: LogId::from_uuid(id),
            seq: 17,
            turn: Some(TurnId::from_uuid(id)),
            at: Timestamp::from_millis(0),
            body,
        };
        serde_json::to_value(EventView::new(SessionId::from_uuid(id), &event)).unwrap()
    }

    #[test]
    fn an_event_has_the_envelope_of_the_contract() {
        let id = Uuid::from_u128(1);

        let wire = event(EventBody::MessageDelta(TextDelta {
            message_id: MessageId::from_uuid(id),
            role: Some(Role::Agent),
            text: "a\nb".to_owned(),
        }));

        assert_eq!(
            wire,
            json!({
                "seq": 17,
                "type": "message.delta",
                "sessionId": id,
                "turnId": id,
                "at": "1970-01-01T00:00:00.000Z",
                "data": {"messageId": id, "role": "agent", "text": "a\nb"},
            })
        );
    }

    #[test]
    fn a_payload_in_an_event_becomes_a_url() {
        let id = Uuid::from_u128(1);

        let wire = event(EventBody::MessageCompleted(MessageCompleted {
            message_id: MessageId::from_uuid(id),
            role: Role::User,
            content: MessageContent::TextPayload {
                payload: PayloadId::from_uuid(id),
                partial: None,
                interrupted: false,
            },
        }));

        assert_eq!(
            wire["data"],
            json!({
                "messageId": id,
                "role": "user",
                "content": {"type": "text", "payloadUrl": format!("/api/payloads/{id}")},
            })
        );
    }
}
