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
/// Of everything that a call has to show, of the texts of a plan, and of the options of a question.
const MAX_SUM_BYTES: usize = 1024 * 1024;
/// Steps of a plan, and options of a question.
const MAX_ENTRIES: usize = 1_000;

/// What an update means for the turn; `None` for those that do not concern it.
pub(super) fn translate(update: SessionUpdate) -> Option<AgentUpdate> {
    match update {
        SessionUpdate::AgentMessageChunk(chunk) => Some(AgentUpdate::Text(text_of(chunk)?)),
        SessionUpdate::AgentThoughtChunk(chunk) => Some(AgentUpdate::Thought(text_of(chunk)?)),
        SessionUpdate::Plan(plan) => Some(AgentUpdate::Plan(steps(plan))),
        SessionUpdate::ToolCall(call) => Some(AgentUpdate::Tool(Box::new(started(call)))),
        SessionUpdate::ToolCallUpdate(update) => Some(AgentUpdate::Tool(Box::new(tool(update)))),
        // What the user said is known; the rest is for editors, or newer than this.
        _ => None,
    }
}

/// The call that a question is about.
pub(super) fn asked(request: RequestPermissionRequest) -> (ToolUpdate, Vec<PermissionOption>) {
    let options = request.options.into_iter().map(|option| PermissionOption {
        option_id: option.option_id.to_string(),
        name: named(option.name),
        kind: word(&option.kind),
    });
    // An option that is known by half its name could not be chosen.
    let usable = options.filter(|option| option.option_id.len() <= MAX_TEXT_BYTES);
    let mut room = Room::default();
    let options = usable.take_while(|one| room.takes(one.option_id.len() + one.name.len()));
    let options = options.collect();
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
    let count = plan.entries.len();
    let steps = plan.entries.into_iter().map(|entry| PlanStep {
        content: named(entry.content),
        status: word(&entry.status),
        priority: word(&entry.priority),
    });
    let mut room = Room::default();
    let mut steps: Vec<_> = steps.take_while(|step| room.takes(step.content.len())).collect();
    if steps.len() < count {
        let content = format!("… ({} steps left out)", count - steps.len());
        let (status, priority) = ("pending".to_owned(), "low".to_owned());
        steps.push(PlanStep { content, status, priority });
    }
    steps
}

fn started(call: ToolCall) -> ToolUpdate {
    let result = result(Some(call.content).filter(|content| !content.is_empty()), call.raw_output);
    ToolUpdate {
        id: named(call.tool_call_id.to_string()),
        tool: named(call.name.unwrap_or(call.title)),
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
        id: named(update.tool_call_id.to_string()),
        tool: named(name.or(title).unwrap_or_default()),
        kind: kind.map(|kind: ToolKind| word(&kind)).unwrap_or_default(),
        args: raw_input.map(shorten),
        result: result(content, raw_output),
        status: word(&status.unwrap_or(ToolCallStatus::InProgress)),
    }
}

/// The raw output alone where there is nothing else; diffs and texts under `content`.
fn result(content: Option<Vec<ToolCallContent>>, raw_output: Option<Value>) -> Option<Value> {
    let content = content.map(|content| shown(&content));
    match (content, raw_output) {
        (None, None) => None,
        (None, Some(output)) => Some(shorten(output)),
        (Some(content), None) => Some(json!({"content": content})),
        (Some(content), Some(output)) => {
            Some(json!({"content": content, "output": shorten(output)}))
        }
    }
}

fn shown(content: &[ToolCallContent]) -> Vec<Value> {
    let mut room = Room::default();
    let entries =
        content.iter().map(|entry| shorten(serde_json::to_value(entry).unwrap_or_default()));
    let mut shown: Vec<_> = entries.take_while(|entry| room.takes(size_of(entry))).collect();
    if shown.len() < content.len() {
        let left_out = format!("{} entries", content.len() - shown.len());
        shown.push(json!({"leftOut": left_out}));
    }
    shown
}

/// How much of a list is kept.
struct Room {
    entries: usize,
    bytes: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { entries: MAX_ENTRIES, bytes: MAX_SUM_BYTES }
    }
}

impl Room {
    /// Whether one more entry of this size is kept.
    fn takes(&mut self, bytes: usize) -> bool {
        let left = (self.entries.checked_sub(1), self.bytes.checked_sub(bytes));
        let (Some(entries), Some(bytes)) = left else { return false };
        *self = Self { entries, bytes };
        true
    }
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
    let size = size_of(&value);
    if size > MAX_VALUE_BYTES { json!({"leftOut": format!("{size} bytes")}) } else { value }
}

fn size_of(value: &Value) -> usize {
    value.to_string().len()
}

fn cut(value: &mut Value) {
    match value {
        Value::String(text) => cut_text(text),
        Value::Array(items) => items.iter_mut().for_each(cut),
        Value::Object(members) => members.values_mut().for_each(cut),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A name or title of bounded length.
fn named(mut text: String) -> String {
    cut_text(&mut text);
    text
}

fn cut_text(text: &mut String) {
    if text.len() > MAX_TEXT_BYTES {
        let end = text.floor_char_boundary(MAX_TEXT_BYTES);
        let left_out = text.len() - end;
        text.truncate(end);
        text.push_str(&format!("… ({left_out} bytes left out)"));
        text.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(update: Value) -> AgentUpdate {
        translate(serde_json::from_value(update).unwrap()).unwrap()
    }

    fn long() -> String {
        "x".repeat(MAX_TEXT_BYTES + 5)
    }

    fn cut_long() -> String {
        format!("{}… (5 bytes left out)", "x".repeat(MAX_TEXT_BYTES))
    }

    #[test]
    fn names_of_tools_are_cut() {
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": long(), "title": long()});
        let change =
            json!({"sessionUpdate": "tool_call_update", "toolCallId": long(), "title": long()});

        for told in [call, change] {
            let AgentUpdate::Tool(tool) = update(told) else { panic!("no tool") };
            assert!(tool.id == cut_long() && tool.tool == cut_long());
        }
    }

    #[test]
    fn plans_are_cut_in_text_number_and_sum() {
        let step =
            |content: &str| json!({"content": content, "priority": "high", "status": "pending"});
        let plan = |entries: Vec<Value>| {
            let AgentUpdate::Plan(steps) =
                update(json!({"sessionUpdate": "plan", "entries": entries}))
            else {
                panic!("no plan")
            };
            steps.into_iter().map(|step| step.content).collect::<Vec<_>>()
        };

        let texts = plan(vec![step(&long())]);
        let numbers = plan(vec![step("a"); 1_002]);
        let sums = plan(vec![step(&"x".repeat(MAX_TEXT_BYTES)); 20]);

        assert!(texts == [cut_long()]);
        assert_eq!((numbers.len(), numbers[1_000].as_str()), (1_001, "… (2 steps left out)"));
        assert_eq!((sums.len(), sums[16].as_str()), (17, "… (4 steps left out)"));
    }

    #[test]
    fn what_a_tool_shows_is_cut_in_sum() {
        let entry =
            json!({"type": "content", "content": {"type": "text", "text": "x".repeat(60_000)}});
        let call = json!({
            "sessionUpdate": "tool_call", "toolCallId": "1", "title": "t", "content": vec![entry; 250],
        });

        let AgentUpdate::Tool(tool) = update(call) else { panic!("no tool") };

        let result = tool.result.unwrap();
        let content = result["content"].as_array().unwrap();
        assert_eq!(content.last(), Some(&json!({"leftOut": "233 entries"})));
        assert!(size_of(&result) < MAX_SUM_BYTES + 1_000);
    }

    #[test]
    fn options_are_cut_and_those_that_cannot_be_chosen_left_out() {
        let option =
            |id: &str, name: &str| json!({"optionId": id, "name": name, "kind": "allow_once"});
        let ask = |options: Vec<Value>| {
            let request =
                json!({"sessionId": "s", "toolCall": {"toolCallId": "1"}, "options": options});
            asked(serde_json::from_value(request).unwrap()).1
        };

        let names = ask(vec![option(&long(), "a"), option("b", &long())]);
        let numbers = ask(vec![option("a", "a"); 1_002]);

        assert_eq!(names.len(), 1);
        assert!(names[0].option_id == "b" && names[0].name == cut_long());
        assert_eq!(numbers.len(), 1_000);
    }
}
