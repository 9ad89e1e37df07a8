//! How much an event holds, and how a long text becomes several.

use serde_json::Value;

use crate::{model::EventBody, payloads::MAX_EVENT_TEXT_BYTES};

/// A text in parts that are short enough for an event.
pub(super) fn pieces(text: String) -> impl Iterator<Item = String> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let later = rest.split_off(rest.floor_char_boundary(MAX_EVENT_TEXT_BYTES));
        let piece = std::mem::replace(&mut rest, later);
        (!piece.is_empty()).then_some(piece)
    })
}

/// About how many bytes an event holds, for what agents can make as long as they like.
pub(super) fn weight(body: &EventBody) -> usize {
    match body {
        EventBody::MessageDelta(delta) | EventBody::ThoughtDelta(delta) => delta.text.len(),
        EventBody::PlanUpdated(plan) => plan.steps.iter().map(|step| step.content.len()).sum(),
        EventBody::ToolStarted(tool)
        | EventBody::ToolUpdated(tool)
        | EventBody::ToolCompleted(tool) => {
            let values = [&tool.args, &tool.result].into_iter().flatten();
            tool.tool.len() + values.map(size).sum::<usize>()
        }
        EventBody::SessionCreated(_)
        | EventBody::SessionUpdated(_)
        | EventBody::SessionSuspended(_)
        | EventBody::SessionResumed(_)
        | EventBody::SessionCompleted(_)
        | EventBody::SessionCancelled(_)
        | EventBody::SessionFailed(_)
        | EventBody::TurnCreated(_)
        | EventBody::TurnStarted(_)
        | EventBody::ContextPlanned(_)
        | EventBody::MessageCompleted(_)
        | EventBody::PermissionRequested(_)
        | EventBody::PermissionResolved(_)
        | EventBody::UsageRecorded(_)
        | EventBody::TurnCompleted(_)
        | EventBody::TurnFailed(_) => 0,
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(size).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() + size(value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_nothing_is_lost() {
        let text = "häß".repeat(MAX_EVENT_TEXT_BYTES / 4);

        let parts: Vec<String> = pieces(text.clone()).collect();

        assert!(parts.len() > 1 && parts.iter().all(|part| part.len() <= MAX_EVENT_TEXT_BYTES));
        assert_eq!(parts.concat(), text);
        assert_eq!(pieces(String::new()).count(), 0);
    }
}
