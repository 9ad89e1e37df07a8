//! The body of a call. The same prompt gives the same bytes.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use skein_core::{
    model::{FileText, Mode},
    ports::{ChainKeeping, Passage, Prompt},
};

/// The tool whose calls become file bundles.
pub(super) const PROPOSE_FILES: &str = "propose_files";

/// Kept as text, so that the order of its keys does not depend on how the JSON library was built.
const TOOLS: &str = r#"[{"type":"function","name":"propose_files","description":"Propose changes to the user's files. Call it once with every file that is to change: create and update need the whole new content of the file, delete needs null. Paths are relative to the workspace. Nothing is written before the user agrees.","strict":true,"parameters":{"type":"object","properties":{"files":{"type":"array","items":{"type":"object","properties":{"path":{"type":"string"},"action":{"type":"string","enum":["create","update","delete"]},"content":{"type":["string","null"]}},"required":["path","action","content"],"additionalProperties":false}}},"required":["files"],"additionalProperties":false}}]"#;

/// What every call is told: the same bytes whatever the user does about it.
const CALL_OUTPUT: &str = "Taken down. The user decides about it.";

/// How a provider wants to be asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    pub(super) chain: ChainKeeping,
    pub(super) background: bool,
}

pub(super) fn compose(manner: Manner, prompt: &Prompt) -> Option<Bytes> {
    let tools = match prompt.mode {
        Mode::Ask => None,
        Mode::Edit => Some(serde_json::from_str::<&RawValue>(TOOLS).ok()?),
    };
    let body = Body {
        model: prompt.model.as_deref(),
        instructions: prompt.system_prompt.as_deref(),
        temperature: prompt.temperature.filter(|temperature| temperature.is_finite()),
        stream: true,
        store: manner.chain == ChainKeeping::Server,
        background: manner.background.then_some(true),
        previous_response_id: prompt.previous_response_id.as_deref(),
        tool_choice: tools.map(|_| "auto"),
        tools,
        input: input(prompt),
        metadata: Metadata { session: prompt.session.to_string(), turn: prompt.turn.to_string() },
    };
    serde_json::to_vec(&body).ok().map(Bytes::from)
}

/// What changes least comes first: providers cache what requests begin with.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    background: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_response_id: Option<&'a str>,
    input: Vec<Item<'a>>,
    metadata: Metadata,
}

/// The only place of ids.
#[derive(Serialize)]
struct Metadata {
    session: String,
    turn: String,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message(Message),
    FunctionCallOutput { call_id: &'a str, output: &'static str },
}

#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: Vec<Part>,
}

#[derive(Serialize)]
struct Part {
    #[serde(rename = "type")]
    kind: &'static str,
    text: String,
}

impl Message {
    fn of_user(texts: impl IntoIterator<Item = String>) -> Self {
        Self::new("user", "input_text", texts)
    }

    fn of_agent(text: String) -> Self {
        Self::new("assistant", "output_text", [text])
    }

    fn new(
        role: &'static str,
        kind: &'static str,
        texts: impl IntoIterator<Item = String>,
    ) -> Self {
        let content = texts.into_iter().map(|text| Part { kind, text }).collect();
        Self { role, content }
    }
}

/// Earlier turns, then what open calls wait for, then one message: passages, files and, alone in the last part,
/// the instruction.
fn input(prompt: &Prompt) -> Vec<Item<'_>> {
    let earlier = prompt.history.iter().flat_map(|turn| {
        [Message::of_user([turn.instruction.clone()]), Message::of_agent(turn.answer.clone())]
    });
    let passages = prompt.passages.iter().map(passage_text);
    let files = prompt.files.iter().map(file_text);
    let instruction = prompt.instruction.as_ref().to_owned();
    let now = Message::of_user(passages.chain(files).chain([instruction]));
    // Without the response that made them, there are no calls to answer.
    let calls = prompt.previous_response_id.iter().flat_map(|_| &prompt.open_calls);
    let outputs = calls.map(|call_id| Item::FunctionCallOutput { call_id, output: CALL_OUTPUT });
    earlier.map(Item::Message).chain(outputs).chain([Item::Message(now)]).collect()
}

fn passage_text(passage: &Passage) -> String {
    let chunk = &passage.chunk;
    let (path, id) = (in_one_line(&chunk.path), in_one_line(&chunk.chunk_id));
    let (start, end, text) = (chunk.start_line, chunk.end_line, &chunk.text);
    let fence = fence_around(text);
    format!("Passage of {path}, lines {start}-{end}, chunk {id}:\n{fence}\n{text}\n{fence}")
}

fn file_text(file: &FileText) -> String {
    let (path, content) = (in_one_line(&file.path), &file.content);
    format!("File {path}, {} bytes, whole:\n{content}", content.len())
}

/// Longer than every run of backticks in the text.
fn fence_around(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(3.max(longest + 1))
}

/// Headers have one line, whatever files are called.
fn in_one_line(name: &str) -> String {
    let mut line = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}
