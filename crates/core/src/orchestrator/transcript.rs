//! Turns what an agent does into the events of its turn. No I/O: the runner decides when to write.

use std::sync::Arc;

use bytes::Bytes;

use super::accept::event;
use crate::{
    model::{
        EventBody, MessageCompleted, MessageContent, MessageId, PayloadId, PlanUpdated, Role,
        TextDelta, ToolChange, Turn, Usage,
    },
    payloads::MAX_EVENT_TEXT_BYTES,
    platform::Platform,
    ports::{AgentUpdate, Coalescing, NewEvent, ToolUpdate},
};

/// What the agent has done so far, and what of it has not been handed out for writing.
pub(super) struct Transcript {
    platform: Arc<Platform>,
    turn: Turn,
    coalescing: Coalescing,
    open: Option<OpenText>,
    open_tools: Vec<(MessageId, ToolUpdate)>,
    ready: Ready,
    /// The texts of the messages that are closed.
    said: Vec<String>,
    pub(super) warnings: Vec<String>,
    pub(super) usage: Option<Usage>,
}

/// Events in order, with the payloads that some of them name.
#[derive(Debug, Default)]
pub(super) struct Ready {
    pub(super) events: Vec<NewEvent>,
    pub(super) payloads: Vec<(PayloadId, Bytes)>,
}

/// The message that the agent is writing.
struct OpenText {
    id: MessageId,
    text: String,
    /// Everything before this byte was handed out as deltas.
    written: usize,
}

/// How the agent's part ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Whole,
    CutOff,
}

impl Transcript {
    pub(super) fn new(platform: Arc<Platform>, turn: Turn, coalescing: Coalescing) -> Self {
        Self {
            platform,
            turn,
            coalescing,
            open: None,
            open_tools: Vec::new(),
            ready: Ready::default(),
            said: Vec::new(),
            warnings: Vec::new(),
            usage: None,
        }
    }

    /// Takes in anything but the end.
    pub(super) fn add(&mut self, update: AgentUpdate) {
        match update {
            AgentUpdate::Text(text) => self.add_text(&text),
            AgentUpdate::Thought(text) => self.add_thought(text),
            AgentUpdate::Plan(steps) => {
                self.hand_out_text();
                let message_id = self.new_message();
                self.push(EventBody::PlanUpdated(PlanUpdated { message_id, steps }));
            }
            AgentUpdate::Tool(update) => self.add_tool(update),
            AgentUpdate::Usage(usage) => self.usage = Some(usage),
            AgentUpdate::Warning(warning) => self.warnings.push(warning),
            AgentUpdate::Finished(_) => {}
        }
    }

    /// Bytes of text that wait to be written.
    pub(super) fn unwritten_bytes(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.text.len() - open.written)
    }

    /// Events that wait to be written, beyond the open text.
    pub(super) fn ready_events(&self) -> usize {
        self.ready.events.len()
    }

    /// Whether there is anything to write.
    pub(super) fn is_due(&self) -> bool {
        self.unwritten_bytes() > 0 || !self.ready.events.is_empty()
    }

    /// Hands out everything that waits.
    pub(super) fn take(&mut self) -> Ready {
        self.hand_out_text();
        std::mem::take(&mut self.ready)
    }

    /// Closes what is open and hands out everything that waits.
    pub(super) fn finish(&mut self, ending: Ending) -> Ready {
        self.close_text(ending);
        for (message_id, tool) in std::mem::take(&mut self.open_tools) {
            let closed = ToolUpdate { status: "failed".to_owned(), ..tool };
            self.push(EventBody::ToolCompleted(tool_change(message_id, closed)));
        }
        if let Some(usage) = self.usage {
            self.push(EventBody::UsageRecorded(usage));
        }
        std::mem::take(&mut self.ready)
    }

    /// The whole answer: what the agent said, message by message.
    pub(super) fn answer(&mut self) -> String {
        match self.said.len() {
            1 => self.said.pop().unwrap_or_default(),
            _ => std::mem::take(&mut self.said).join("\n\n"),
        }
    }

    fn add_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let platform = &self.platform;
        let open = self.open.get_or_insert_with(|| OpenText {
            id: MessageId::from_uuid(platform.new_id()),
            text: String::new(),
            written: 0,
        });
        open.text.push_str(text);
        if self.coalescing == Coalescing::EveryChunk {
            self.hand_out_text();
        }
    }

    /// Thoughts that follow each other before a write become one event.
    fn add_thought(&mut self, text: String) {
        self.hand_out_text();
        if let Some(NewEvent { body: EventBody::ThoughtDelta(last), .. }) =
            self.ready.events.last_mut()
        {
            last.text.push_str(&text);
            return;
        }
        let message_id = self.new_message();
        self.push(EventBody::ThoughtDelta(TextDelta { message_id, role: None, text }));
    }

    /// A tool call closes the open text. Calls are known by id; updates may come in any order.
    fn add_tool(&mut self, update: ToolUpdate) {
        self.close_text(Ending::Whole);
        let known = self.open_tools.iter().position(|(_, tool)| tool.id == update.id);
        let (message_id, tool, is_new) = match known {
            Some(index) => {
                let (message_id, tool) = self.open_tools.remove(index);
                (message_id, merge(tool, update), false)
            }
            None => (self.new_message(), update, true),
        };
        if is_new {
            self.push(EventBody::ToolStarted(tool_change(message_id, tool.clone())));
        } else if !tool.is_closed() {
            self.push(EventBody::ToolUpdated(tool_change(message_id, tool.clone())));
        }
        if tool.is_closed() {
            self.push(EventBody::ToolCompleted(tool_change(message_id, tool)));
        } else {
            self.open_tools.push((message_id, tool));
        }
    }

    fn hand_out_text(&mut self) {
        let Some(open) = &mut self.open else { return };
        if open.written == open.text.len() {
            return;
        }
        let (message_id, role) = (open.id, Some(Role::Agent));
        let mut deltas = Vec::new();
        while open.written < open.text.len() {
            let end = open.text.floor_char_boundary(open.written + MAX_EVENT_TEXT_BYTES);
            let text = open.text[open.written..end].to_owned();
            deltas.push(TextDelta { message_id, role, text });
            open.written = end;
        }
        for delta in deltas {
            self.push(EventBody::MessageDelta(delta));
        }
    }

    /// A message that nobody has seen a part of needs no delta: its end carries it whole.
    fn close_text(&mut self, ending: Ending) {
        let Some(open) = &mut self.open else { return };
        if open.written == 0 {
            open.written = open.text.len();
        }
        self.hand_out_text();
        let Some(open) = self.open.take() else { return };
        let (partial, interrupted) = (Some(false), ending == Ending::CutOff);
        let content = if open.text.len() <= MAX_EVENT_TEXT_BYTES {
            MessageContent::Text { text: open.text.clone(), partial, interrupted }
        } else {
            let payload = PayloadId::from_uuid(self.platform.new_id());
            self.ready.payloads.push((payload, Bytes::from(open.text.clone())));
            MessageContent::TextPayload { payload, partial, interrupted }
        };
        let message = MessageCompleted { message_id: open.id, role: Role::Agent, content };
        self.push(EventBody::MessageCompleted(message));
        self.said.push(open.text);
    }

    fn push(&mut self, body: EventBody) {
        let at = self.platform.now();
        self.ready.events.push(event(&self.turn, at, body));
    }

    fn new_message(&self) -> MessageId {
        MessageId::from_uuid(self.platform.new_id())
    }
}

fn merge(known: ToolUpdate, update: ToolUpdate) -> ToolUpdate {
    ToolUpdate {
        args: update.args.or(known.args),
        result: update.result.or(known.result),
        tool: if update.tool.is_empty() { known.tool } else { update.tool },
        kind: if update.kind.is_empty() { known.kind } else { update.kind },
        ..update
    }
}

fn tool_change(message_id: MessageId, tool: ToolUpdate) -> ToolChange {
    ToolChange {
        message_id,
        tool_call_id: tool.id,
        tool: tool.tool,
        kind: tool.kind,
        args: tool.args,
        result: tool.result,
        status: tool.status,
    }
}
