//! From the protocol's updates to what an agent did.

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, Plan, RequestPermissionRequest, SessionUpdate, ToolCall,
    ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use serde::Serialize;
use serde_json::{Value, json};
use skein_core::{
    model::{PermissionOption, PlanStep},
    ports::{AgentUpdate, ToolUpdate},
};

/// Longer texts in arguments and results are cut: the log keeps what people read, not whole files.
const MAX_TEXT_BYTES: usize = 64 * 1024;
const MAX_VALUE_BYTES: usize = 256 * 1024;

/// What an update means for the turn; `None` for those that do not concern it.
pub(super) fn translate(update: SessionUpdate) -> Option<AgentUpdate> {
    match update {
        SessionUpdate::AgentMessageChunk(chunk) => Some(AgentUpdate::Text(text_of(chunk)?)),
        SessionUpdate::AgentThoughtChunk(chunk) => Some(AgentUpdate::Thought(text_of(chunk)?)),
        SessionUpdate::Plan(plan) => Some(AgentUpdate::Plan(steps(plan))),
        SessionUpdate::ToolCall(call) => Some(AgentUpdate::Tool(started(call))),
        SessionUpdate::ToolCallUpdate(update) => Some(AgentUpdate::Tool(tool(update))),
        // What the user said is known; the rest is for editors, or newer than this.
        _ => None,
    }
}

/// The call that a question is about.
pub(super) fn asked(request: RequestPermissionRequest) -> (ToolUpdate, Vec<PermissionOption>) {
    let options = request
        .options
        .into_iter()
        .map(|option| PermissionOption {
            option_id: option.option_id.to_string(),
            name: option.name,
            kind: word(&option.kind),
        })
        .collect();
    let is_told = request.tool_call.fields.status.is_some();
    let mut tool = tool(request.tool_call);
    if !is_told {
        tool.status = word(&ToolCallStatus::Pending);
    }
    (tool, options)
}

fn text_of(chunk: ContentChunk) -> Option<String> {
    match chunk.content {
        ContentBlock::Text(text) => Some(text.text),
        ContentBlock::ResourceLink(link) => Some(format!("[{}]({})", link.name, link.uri)),
        // Pictures and sounds are not kept.
        _ => None,
    }
}

fn steps(plan: Plan) -> Vec<PlanStep> {
    let step = |entry: agent_client_protocol::v1::schema::PlanEntry| PlanStep {
        content: entry.content,
        status: word(&entry.status),
        priority: word(&entry.priority),
    };
    plan.entries.into_iter().map(step).collect()
}

fn started(call: ToolCall) -> ToolUpdate {
    let result = result(Some(call.content).filter(|content| !content.is_empty()), call.raw_output);
    ToolUpdate {
        id: call.tool_call_id.to_string(),
        tool: call.name.unwrap_or(call.title),
        kind: word(&call.kind),
        args: call.raw_input.map(shorten),
        result,
        status: word(&call.status),
    }
}

/// Fields that are left out stay as they were.
fn tool(update: ToolCallUpdate) -> ToolUpdate {
    let ToolCallUpdateFields { kind, status, title, name, content, raw_input, raw_output, .. } =
        update.fields;
    ToolUpdate {
        id: update.tool_call_id.to_string(),
        tool: name.or(title).unwrap_or_default(),
        kind: kind.map(|kind: ToolKind| word(&kind)).unwrap_or_default(),
        args: raw_input.map(shorten),
        result: result(content, raw_output),
        status: word(&status.unwrap_or(ToolCallStatus::InProgress)),
    }
}

/// The raw output alone where there is nothing else; diffs and texts under `content`.
fn result(content: Option<Vec<ToolCallContent>>, raw_output: Option<Value>) -> Option<Value> {
    let content = content.map(|content| content.iter().map(shown).collect::<Vec<_>>());
    match (content, raw_output) {
        (None, None) => None,
        (None, Some(output)) => Some(shorten(output)),
        (Some(content), None) => Some(json!({"content": content})),
        (Some(content), Some(output)) => {
            Some(json!({"content": content, "output": shorten(output)}))
        }
    }
}

fn shown(content: &ToolCallContent) -> Value {
    shorten(serde_json::to_value(content).unwrap_or_default())
}

/// The protocol's spelling of a word.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}

fn shorten(mut value: Value) -> Value {
    cut(&mut value);
    let size = value.to_string().len();
    if size > MAX_VALUE_BYTES { json!({"leftOut": format!("{size} bytes")}) } else { value }
}

fn cut(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > MAX_TEXT_BYTES => {
            let left_out = text.len() - MAX_TEXT_BYTES;
            text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
            text.push_str(&format!("… ({left_out} bytes left out)"));
        }
        Value::Array(items) => items.iter_mut().for_each(cut),
        Value::Object(members) => members.values_mut().for_each(cut),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
