//! What a test wants the server to do next, in Rust and as JSON.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// One line of a script: what to do with the next request that it fits.
///
/// Without any of it the server answers by itself; see [`Answer::default`].
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    #[serde(default)]
    pub(super) on: On,
    /// Fits only requests whose last user text contains this.
    #[serde(default)]
    pub(super) when: Option<String>,
    /// How many requests it serves before it is used up.
    #[serde(default = "once")]
    pub(super) times: u32,
    /// Serves every request that fits, for ever.
    #[serde(default)]
    pub(super) always: bool,
    /// Instead of an answer. Nothing is dispatched.
    #[serde(default)]
    pub(super) refuse: Option<Refusal>,
    #[serde(default)]
    pub(super) answer: Answer,
    /// What happens to the connection meanwhile.
    #[serde(default)]
    pub(super) wire: Option<Wire>,
}

fn once() -> u32 {
    1
}

/// Which requests a line of a script is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// `POST /v1/responses`.
    #[default]
    Create,
    /// `GET /v1/responses/{id}`, also streamed. Has no instruction, so `when` never fits.
    Retrieve,
    /// `POST /v1/responses/{id}/cancel`.
    Cancel,
}

impl Script {
    /// Does something to the connection of an ordinary answer.
    pub fn wire(wire: Wire) -> Self {
        Self { wire: Some(wire), ..Answer::default().into() }
    }

    /// Sends the client elsewhere.
    pub fn redirect(to: &str) -> Self {
        Refusal::text(302, "moved").header("location", to).into()
    }

    pub fn on(self, on: On) -> Self {
        Self { on, ..self }
    }

    pub fn when(self, instruction_contains: &str) -> Self {
        Self { when: Some(instruction_contains.to_owned()), ..self }
    }

    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    pub fn always(self) -> Self {
        Self { always: true, ..self }
    }

    pub fn and_wire(self, wire: Wire) -> Self {
        Self { wire: Some(wire), ..self }
    }

    fn fits(&self, on: On, instruction: &str) -> bool {
        self.on == on && self.when.as_deref().is_none_or(|part| instruction.contains(part))
    }
}

impl From<Answer> for Script {
    fn from(answer: Answer) -> Self {
        Self {
            on: On::default(),
            when: None,
            times: 1,
            always: false,
            refuse: None,
            answer,
            wire: None,
        }
    }
}

impl From<Refusal> for Script {
    fn from(refusal: Refusal) -> Self {
        Self { refuse: Some(refusal), ..Answer::default().into() }
    }
}

/// What the model says, how fast, and how it ends.
///
/// The default is one text made of what the server can see: `turn 3: <last user text>`, where 3 is one more than the times
/// that the model has spoken in the context that reached the server, by the chain or in `input`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    /// The output items, in order. Empty: the default text, or nothing if the response fails.
    pub output: Vec<Output>,
    /// Characters per delta. Without it: 16, or so many that a text has 256 deltas.
    pub chunk_chars: Option<usize>,
    pub ending: Ending,
    /// Places in the stream where the model waits until the test opens a gate.
    pub holds: Vec<Hold>,
    /// What else is in the stream.
    pub extras: Vec<Extra>,
    /// Waits so long before each event. Only for programs that cannot open gates.
    pub pause_ms: u64,
    /// So many events come without that pause.
    pub quick_events: usize,
}

impl Answer {
    pub fn text(text: &str) -> Self {
        Self::default().and(Output::Text(text.to_owned()))
    }

    /// So many bytes of filler.
    pub fn filler(bytes: usize) -> Self {
        Self::default().and(Output::Filler(bytes))
    }

    pub fn reasoning(summary: &str) -> Self {
        Self::default().and(Output::Reasoning(summary.to_owned()))
    }

    /// `arguments` goes out as it is, also when it is not JSON.
    pub fn tool_call(name: &str, arguments: &str) -> Self {
        Self::default().and_tool_call(name, arguments)
    }

    /// One more output item.
    pub fn and(mut self, output: Output) -> Self {
        self.output.push(output);
        self
    }

    pub fn and_text(self, text: &str) -> Self {
        self.and(Output::Text(text.to_owned()))
    }

    pub fn and_tool_call(self, name: &str, arguments: &str) -> Self {
        let (name, arguments) = (name.to_owned(), arguments.to_owned());
        self.and(Output::ToolCall { name, arguments })
    }

    pub fn chunk_chars(self, chunk_chars: usize) -> Self {
        Self { chunk_chars: Some(chunk_chars), ..self }
    }

    pub fn ending(self, ending: Ending) -> Self {
        Self { ending, ..self }
    }

    /// Waits at [`super::ResponsesServer::gate`] before the event with this sequence number.
    pub fn hold_before(mut self, before: usize, gate: &str) -> Self {
        self.holds.push(Hold { before, gate: gate.to_owned() });
        self
    }

    /// An event of a type that nobody knows, before the event that would have had this sequence number.
    pub fn unknown_event_before(mut self, before: usize, event: &str) -> Self {
        let block = ExtraBlock::Event { event: event.to_owned(), data: json!({"note": "unknown"}) };
        self.extras.push(Extra { before, block });
        self
    }

    /// Bytes in the stream as they are: comments, events that are not JSON.
    pub fn raw_before(mut self, before: usize, raw: &str) -> Self {
        self.extras.push(Extra { before, block: ExtraBlock::Raw { raw: raw.to_owned() } });
        self
    }

    /// An event whose data is not JSON.
    pub fn malformed_event_before(self, before: usize) -> Self {
        self.raw_before(before, "event: response.output_text.delta\ndata: {\"delta\": \n\n")
    }
}

/// One output item.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// The text that the server makes of what it can see.
    Default,
    Text(String),
    /// So many bytes of text.
    Filler(usize),
    /// A reasoning item with this summary.
    Reasoning(String),
    ToolCall {
        name: String,
        /// In a JSON script a string goes out as it is, anything else serialised.
        #[serde(deserialize_with = "text_or_json")]
        arguments: String,
    },
}

fn text_or_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        other => other.to_string(),
    })
}

/// How a response ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    #[default]
    Completed,
    /// `response.incomplete` with this reason.
    Incomplete(String),
    /// `response.failed` with this error.
    Failed { code: String, message: String },
    /// An `error` event and then nothing; without a stream a 500.
    Error { code: String, message: String },
}

/// Waits before the event with this sequence number until the gate of this name is opened.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    pub before: usize,
    pub gate: String,
}

/// Something more in the stream, before the event that would have had this sequence number.
#[derive(Debug, Clone, Deserialize)]
pub struct Extra {
    pub before: usize,
    #[serde(flatten)]
    pub block: ExtraBlock,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum ExtraBlock {
    /// Takes a sequence number of its own, so that the numbers stay without gaps.
    Event {
        event: String,
        data: Value,
    },
    Raw {
        raw: String,
    },
}

/// What happens to a connection, whatever the model does. A body that is not a stream counts as one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// The connection is closed without a reply; the model has started.
    CloseBeforeHeaders,
    /// There is never a reply; the model has started.
    StallBeforeHeaders,
    /// After so many events nothing more comes, and the connection stays.
    StallAfter(usize),
    /// The connection breaks after so many events.
    CutAfter(usize),
    /// The connection breaks in the middle of the event that follows so many.
    CutInEvent(usize),
    /// The connection breaks inside the first character of several bytes that comes after so many events.
    CutInCharacter(usize),
    /// The reply ends as if it were whole after so many events.
    EndAfter(usize),
}

/// An answer with an error status, or anything else that is not a response.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    pub status: u16,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body as it is. Without it: an error of the API's shape that fits the status.
    #[serde(default)]
    pub text: Option<String>,
    /// The value of `error` in the body.
    #[serde(default)]
    pub error: Option<Value>,
}

impl Refusal {
    /// With the error that the API gives with this status.
    pub fn status(status: u16) -> Self {
        Self { status, headers: BTreeMap::new(), text: None, error: None }
    }

    pub fn text(status: u16, text: &str) -> Self {
        Self { text: Some(text.to_owned()), ..Self::status(status) }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    pub fn retry_after(self, seconds: &str) -> Self {
        self.header("retry-after", seconds)
    }

    pub(super) fn body(&self) -> (&'static str, String) {
        if let Some(text) = &self.text {
            return ("text/plain; charset=utf-8", text.clone());
        }
        let error = self.error.clone().unwrap_or_else(|| usual_error(self.status));
        ("application/json", json!({"error": error}).to_string())
    }
}

fn usual_error(status: u16) -> Value {
    let (kind, code, message) = match status {
        429 => (
            "requests",
            json!("rate_limit_exceeded"),
            "Rate limit reached for requests. Please try again later.",
        ),
        503 => (
            "service_unavailable_error",
            Value::Null,
            "The server is currently overloaded. Please try again later.",
        ),
        500..=599 => (
            "server_error",
            Value::Null,
            "The server had an error while processing your request. Sorry about that!",
        ),
        _ => ("invalid_request_error", Value::Null, "The request was refused by the script."),
    };
    json!({"message": message, "type": kind, "param": null, "code": code})
}

/// The lines that are not used up, first come first served.
#[derive(Debug, Default)]
pub(super) struct Queue(VecDeque<Script>);

impl Queue {
    pub(super) fn push(&mut self, script: Script) {
        self.0.push_back(script);
    }

    /// Takes the first line that fits, if it is a refusal.
    pub(super) fn take_refusal(&mut self, on: On, instruction: &str) -> Option<Refusal> {
        let index = self.0.iter().position(|script| script.fits(on, instruction))?;
        self.0[index].refuse.as_ref()?;
        self.take_at(index).refuse
    }

    /// Takes the first line that fits.
    pub(super) fn take(&mut self, on: On, instruction: &str) -> Option<Script> {
        let index = self.0.iter().position(|script| script.fits(on, instruction))?;
        Some(self.take_at(index))
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().filter(|script| !script.always).count()
    }

    fn take_at(&mut self, index: usize) -> Script {
        let script = &mut self.0[index];
        let taken = script.clone();
        if !script.always {
            script.times = script.times.saturating_sub(1);
            if script.times == 0 {
                self.0.remove(index);
            }
        }
        taken
    }
}
