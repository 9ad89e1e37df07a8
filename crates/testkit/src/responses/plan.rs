//! The events of one response, from the first to the last, made before any of them is sent.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{
    request::CreateRequest,
    script::{Answer, Ending, Extra, ExtraBlock, Output},
};

/// What a response is before its first event.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) id: &'a str,
    pub(super) request: &'a CreateRequest,
    pub(super) created_at: u64,
    pub(super) default_text: String,
    pub(super) input_tokens: usize,
    pub(super) cached_tokens: usize,
}

/// The state of a response, as the API names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Queued,
    InProgress,
    Completed,
    Incomplete,
    Failed,
    Cancelled,
}

impl Status {
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::InProgress)
    }
}

/// One event as it goes over the wire, and what the response is from then on.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// Not there for raw bytes that a script put into the stream.
    pub(super) sequence_number: Option<usize>,
    pub(super) bytes: Bytes,
    pub(super) becomes: Option<(Status, Value)>,
}

#[derive(Debug)]
pub(super) struct Plan {
    /// What the response is before the first event.
    pub(super) response: Value,
    pub(super) steps: Vec<Step>,
    /// The items that the model added to the conversation.
    pub(super) output: Vec<Value>,
}

pub(super) fn plan(draft: &Draft<'_>, answer: &Answer) -> Plan {
    let first = if draft.request.background { Status::Queued } else { Status::InProgress };
    let mut writer = Writer::new(draft, answer);
    writer.lifecycle("response.created", first);
    if first == Status::Queued {
        writer.lifecycle("response.queued", first);
    }
    writer.lifecycle("response.in_progress", Status::InProgress);
    for output in &answer.output {
        writer.item(output);
    }
    let breaks = matches!(answer.ending, Ending::Failed { .. } | Ending::Error { .. });
    if answer.output.is_empty() && !breaks {
        writer.item(&Output::Default);
    }
    writer.end(&answer.ending);
    Plan {
        response: writer.response(first),
        output: std::mem::take(&mut writer.output),
        steps: writer.finish(),
    }
}

struct Writer<'a> {
    draft: &'a Draft<'a>,
    answer: &'a Answer,
    extras: Vec<&'a Extra>,
    steps: Vec<Step>,
    /// The next number, and the next without those of extra events.
    next: usize,
    next_own: usize,
    output: Vec<Value>,
    output_bytes: usize,
    reasoning_bytes: usize,
}

impl<'a> Writer<'a> {
    fn new(draft: &'a Draft<'a>, answer: &'a Answer) -> Self {
        Self {
            draft,
            answer,
            extras: answer.extras.iter().collect(),
            steps: Vec::new(),
            next: 0,
            next_own: 0,
            output: Vec::new(),
            output_bytes: 0,
            reasoning_bytes: 0,
        }
    }

    fn lifecycle(&mut self, event: &str, status: Status) {
        let response = self.response(status);
        self.event(event, json!({"response": response}), Some((status, response.clone())));
    }

    fn item(&mut self, output: &Output) {
        match output {
            Output::Default => self.message(&self.draft.default_text),
            Output::Text(text) => self.message(text),
            Output::Filler(bytes) => self.message(&filler(*bytes)),
            Output::Reasoning(summary) => self.reasoning(summary),
            Output::ToolCall { name, arguments } => self.tool_call(name, arguments),
        }
    }

    fn message(&mut self, text: &str) {
        let index = self.output.len();
        let id = self.item_id("msg");
        let place = json!({"item_id": id, "output_index": index, "content_index": 0});
        let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
        let item = |status: &str, content: Value| {
            json!({"id": id, "type": "message", "role": "assistant", "status": status,
                   "content": content})
        };
        self.plain(
            "response.output_item.added",
            &json!({"output_index": index}),
            json!({"item": item("in_progress", json!([]))}),
        );
        self.plain("response.content_part.added", &place, json!({"part": part("")}));
        for delta in self.chunks(text) {
            let delta = self.delta(json!({"delta": delta, "logprobs": []}));
            self.plain("response.output_text.delta", &place, delta);
        }
        self.plain("response.output_text.done", &place, json!({"text": text, "logprobs": []}));
        self.plain("response.content_part.done", &place, json!({"part": part(text)}));
        let done = item(self.item_status(), json!([part(text)]));
        self.output_bytes += text.len();
        self.item_done(done);
    }

    fn reasoning(&mut self, summary: &str) {
        let index = self.output.len();
        let id = self.item_id("rs");
        let place = json!({"item_id": id, "output_index": index, "summary_index": 0});
        let part = |text: &str| json!({"type": "summary_text", "text": text});
        let item = |summary: Value| json!({"id": id, "type": "reasoning", "summary": summary});
        self.plain(
            "response.output_item.added",
            &json!({"output_index": index}),
            json!({"item": item(json!([]))}),
        );
        self.plain("response.reasoning_summary_part.added", &place, json!({"part": part("")}));
        for delta in self.chunks(summary) {
            let delta = self.delta(json!({"delta": delta}));
            self.plain("response.reasoning_summary_text.delta", &place, delta);
        }
        self.plain("response.reasoning_summary_text.done", &place, json!({"text": summary}));
        self.plain("response.reasoning_summary_part.done", &place, json!({"part": part(summary)}));
        self.reasoning_bytes += summary.len();
        self.item_done(item(json!([part(summary)])));
    }

    fn tool_call(&mut self, name: &str, arguments: &str) {
        let index = self.output.len();
        let id = self.item_id("fc");
        let call_id = self.item_id("call");
        let place = json!({"item_id": id, "output_index": index});
        let item = |status: &str, arguments: &str| {
            json!({"id": id, "type": "function_call", "status": status, "call_id": call_id,
                   "name": name, "arguments": arguments})
        };
        self.plain(
            "response.output_item.added",
            &json!({"output_index": index}),
            json!({"item": item("in_progress", "")}),
        );
        for delta in self.chunks(arguments) {
            let delta = self.delta(json!({"delta": delta}));
            self.plain("response.function_call_arguments.delta", &place, delta);
        }
        let done = json!({"arguments": arguments, "name": name});
        self.plain("response.function_call_arguments.done", &place, done);
        let done = item(self.item_status(), arguments);
        self.output_bytes += arguments.len();
        self.item_done(done);
    }

    fn item_done(&mut self, item: Value) {
        let index = json!({"output_index": self.output.len()});
        self.plain("response.output_item.done", &index, json!({"item": item.clone()}));
        self.output.push(item);
    }

    fn end(&mut self, ending: &Ending) {
        match ending {
            Ending::Completed => self.lifecycle("response.completed", Status::Completed),
            Ending::Incomplete(_) => self.lifecycle("response.incomplete", Status::Incomplete),
            Ending::Failed { .. } => self.lifecycle("response.failed", Status::Failed),
            Ending::Error { code, message } => {
                let failed = (Status::Failed, self.response(Status::Failed));
                let data = json!({"code": code, "message": message, "param": null});
                self.event("error", data, Some(failed));
            }
        }
    }

    /// The response as it is now, with this status.
    fn response(&self, status: Status) -> Value {
        let mut response = self.draft.request.echoed();
        let error = match &self.answer.ending {
            Ending::Failed { code, message } | Ending::Error { code, message }
                if status == Status::Failed =>
            {
                json!({"code": code, "message": message})
            }
            _ => Value::Null,
        };
        let details = match &self.answer.ending {
            Ending::Incomplete(reason) if status == Status::Incomplete => json!({"reason": reason}),
            _ => Value::Null,
        };
        let done = matches!(status, Status::Completed | Status::Incomplete);
        let own = json!({
            "id": self.draft.id,
            "object": "response",
            "created_at": self.draft.created_at,
            "completed_at": (status == Status::Completed).then_some(self.draft.created_at + 1),
            "status": status.name(),
            "background": self.draft.request.background,
            "store": self.draft.request.store,
            "previous_response_id": self.draft.request.previous,
            "error": error,
            "incomplete_details": details,
            "output": if status.is_final() { &self.output[..] } else { &[] },
            "usage": done.then(|| self.usage()),
        });
        if let Value::Object(own) = own {
            response.extend(own);
        }
        Value::Object(response)
    }

    fn usage(&self) -> Value {
        let reasoning = tokens(self.reasoning_bytes);
        let output = tokens(self.output_bytes) + reasoning;
        json!({
            "input_tokens": self.draft.input_tokens,
            "input_tokens_details": {"cached_tokens": self.draft.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": reasoning},
            "total_tokens": self.draft.input_tokens + output,
        })
    }

    /// The last item of a response that does not complete is cut off.
    fn item_status(&self) -> &'static str {
        if self.answer.ending == Ending::Completed { "completed" } else { "incomplete" }
    }

    fn item_id(&self, prefix: &str) -> String {
        let own = self.draft.id.trim_start_matches("resp_");
        format!("{prefix}_{own}{:02x}", self.output.len())
    }

    fn chunks<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let size = self.answer.chunk_chars.unwrap_or_else(|| 16.max(text.len() / 256)).max(1);
        let mut rest = text;
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            let end = rest.char_indices().nth(size).map_or(rest.len(), |(index, _)| index);
            let (chunk, later) = rest.split_at(end);
            chunks.push(chunk);
            rest = later;
        }
        chunks
    }

    /// The API pads deltas so that their length does not give away the text.
    fn delta(&self, mut delta: Value) -> Value {
        if self.draft.request.obfuscate {
            delta["obfuscation"] = json!("x".repeat(1 + self.next % 15));
        }
        delta
    }

    fn plain(&mut self, event: &str, place: &Value, data: Value) {
        let mut fields = place.clone();
        merge(&mut fields, data);
        self.event(event, fields, None);
    }

    fn event(&mut self, event: &str, data: Value, becomes: Option<(Status, Value)>) {
        self.extras_due();
        self.next_own += 1;
        self.write(event, data, becomes);
    }

    fn extras_due(&mut self) {
        let (due, later): (Vec<_>, Vec<_>) =
            self.extras.drain(..).partition(|extra| extra.before <= self.next_own);
        self.extras = later;
        for extra in due {
            match &extra.block {
                ExtraBlock::Event { event, data } => self.write(event, data.clone(), None),
                ExtraBlock::Raw { raw } => self.steps.push(Step {
                    sequence_number: None,
                    bytes: Bytes::from(raw.clone()),
                    becomes: None,
                }),
            }
        }
    }

    fn write(&mut self, event: &str, data: Value, becomes: Option<(Status, Value)>) {
        let mut fields = json!({"type": event, "sequence_number": self.next});
        merge(&mut fields, data);
        self.steps.push(Step {
            sequence_number: Some(self.next),
            bytes: Bytes::from(format!("event: {event}\ndata: {fields}\n\n")),
            becomes,
        });
        self.next += 1;
    }

    fn finish(self) -> Vec<Step> {
        self.steps
    }
}

/// Four bytes are about one token.
pub(super) fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(4)
}

fn merge(fields: &mut Value, more: Value) {
    if let (Value::Object(fields), Value::Object(more)) = (fields, more) {
        let more: Map<String, Value> = more;
        fields.extend(more);
    }
}

/// Text of exactly so many bytes, in lines, no two alike.
fn filler(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 32);
    let mut line = 0_usize;
    while text.len() < bytes {
        line += 1;
        text.push_str(&format!("line {line} of a very long answer\n"));
    }
    text.truncate(bytes);
    text
}
