//! Turns what an agent does into the events of its turn. No I/O: the runner decides when to write.

use std::{collections::HashSet, sync::Arc};

use super::{
    accept::event,
    growing::{Growing, Part},
    pieces::{pieces, weight},
    questions::Asked,
    raw::RawResponse,
    said::{Message, Said, Whole},
};
use crate::{
    Error,
    model::{
        EventBody, MessageCompleted, MessageContent, MessageId, PayloadId, PlanUpdated, Role,
        Scope, TextDelta, Timestamp, ToolChange, Turn, Usage,
    },
    payloads::{self, Draft, MAX_EVENT_TEXT_BYTES, TEXT},
    platform::Platform,
    policy::text::without_nul,
    ports::{
        AgentRuntime, AgentUpdate, Coalescing, NewEvent, NewPayload, PermissionAsk, ToolUpdate,
        Write,
    },
};

/// While this much waits behind a write, the agent is not listened to.
const MAX_WAITING_BYTES: usize = 256 * 1024;
pub(super) const MAX_WAITING_EVENTS: usize = 4096;
const MAX_WAITING_PARTS: usize = 2;

/// Parts of payloads in one change set.
const MAX_PARTS: usize = 4;

/// What the agent has done so far, and what of it has not been handed out for writing.
pub(super) struct Transcript {
    platform: Arc<Platform>,
    turn: Turn,
    coalescing: Coalescing,
    open: Option<OpenText>,
    open_tools: Vec<(MessageId, ToolUpdate)>,
    /// Calls that have ended; whatever else is told of them comes too late.
    closed_tools: HashSet<String>,
    ready: Ready,
    said: Said,
    raw: RawResponse,
    response: ResponseMark,
    pub(super) first_text_at: Option<Timestamp>,
    /// The arguments of `propose_files` calls.
    pub(super) proposals: Vec<String>,
    /// Calls that the next turn has to answer.
    pub(super) open_calls: Vec<String>,
    pub(super) warnings: Vec<String>,
    pub(super) usage: Option<Usage>,
    pub(super) has_asked: bool,
}

/// Events in order, with the payloads that some of them name, and how far the provider's response has come.
#[derive(Debug, Default)]
pub(super) struct Ready {
    pub(super) events: Vec<NewEvent>,
    /// About as much as the events hold.
    event_bytes: usize,
    pub(super) drafts: Vec<Draft>,
    /// Parts of texts and of the raw response, and the payloads whose parts are all there or among these.
    pub(super) parts: Vec<Part>,
    pub(super) payloads: Vec<NewPayload>,
    pub(super) response: Option<(String, Option<u64>)>,
    pub(super) asked: Vec<Asked>,
}

impl Ready {
    /// The payloads, with their parts before them. What a change set has no room for is stored ahead of it.
    pub(super) async fn writes(
        &self,
        platform: &Platform,
        scope: &Scope,
    ) -> Result<Vec<Write>, Error> {
        let (ahead, with) = self.parts.split_at(self.parts.len().saturating_sub(MAX_PARTS));
        for part in ahead {
            payloads::put_part(platform, scope, part.write()).await?;
        }
        let mut writes: Vec<Write> = with.iter().map(Part::write).collect();
        for draft in &self.drafts {
            let staged = payloads::stage(platform, scope, draft.clone()).await?;
            writes.push(Write::PutPayload(staged));
        }
        writes.extend(self.payloads.iter().cloned().map(Write::PutPayload));
        writes.extend(self.asked.iter().map(Asked::write));
        Ok(writes)
    }
}

/// How far the provider's response has come.
#[derive(Debug, Default)]
struct ResponseMark {
    id: Option<String>,
    position: Option<u64>,
    /// Whether a crash can go on from here, so that it is worth a write.
    is_noted: bool,
    is_id_written: bool,
    /// Whether something of an event has been taken in whose position has not.
    is_behind: bool,
}

/// What a transcript goes on from after a crash.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// The messages that were closed, with the payloads of those that have one.
    pub(super) said: Vec<(String, Option<PayloadId>)>,
    pub(super) open: Option<(MessageId, String)>,
    pub(super) response: Option<(String, Option<u64>)>,
    pub(super) raw: Option<RawResponse>,
}

/// The message that the agent is writing.
struct OpenText {
    id: MessageId,
    kept: Growing,
    /// What was not handed out as deltas.
    unwritten: String,
    /// Whether anything was.
    is_seen: bool,
}

/// How the agent's part ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Whole,
    CutOff,
}

impl Transcript {
    /// `runtime` decides how text is gathered, and whether its responses can be taken up again.
    pub(super) fn new(
        platform: Arc<Platform>,
        turn: Turn,
        runtime: Option<&dyn AgentRuntime>,
        before: Before,
    ) -> Self {
        let coalescing = runtime.map_or(Coalescing::Gather, AgentRuntime::coalescing);
        let is_noted = runtime.is_some_and(AgentRuntime::outlives_connections);
        let raw = before.raw.unwrap_or_else(|| match is_noted {
            true => RawResponse::of_turn(turn.id),
            false => RawResponse::new(PayloadId::from_uuid(platform.new_id())),
        });
        let (id, position) = before.response.unzip();
        let is_id_written = id.is_some();
        let mut transcript = Self {
            raw,
            platform,
            turn,
            coalescing,
            open: None,
            open_tools: Vec::new(),
            closed_tools: HashSet::new(),
            ready: Ready::default(),
            said: Said::default(),
            response: ResponseMark {
                id,
                position: position.flatten(),
                is_noted,
                is_id_written,
                is_behind: false,
            },
            first_text_at: None,
            proposals: Vec::new(),
            open_calls: Vec::new(),
            warnings: Vec::new(),
            usage: None,
            has_asked: false,
        };
        transcript.recall(before.said, before.open);
        transcript
    }

    /// Takes in what was durable before a crash; nothing of it is told again.
    fn recall(
        &mut self,
        said: Vec<(String, Option<PayloadId>)>,
        open: Option<(MessageId, String)>,
    ) {
        for (said, payload) in said {
            let id = payload.unwrap_or_else(|| self.new_payload());
            let mut text = Growing::new(id);
            text.add(said.as_bytes());
            if payload.is_some() {
                text.finish(self.turn.log, TEXT);
            }
            self.begin_message();
            self.ready.parts.extend(self.said.add(&said));
            self.said.close_message(Message { text, is_payload: payload.is_some() });
        }
        if let Some((id, text)) = open {
            self.begin_message();
            let kept = Growing::new(self.new_payload());
            let open = OpenText { id, kept, unwritten: String::new(), is_seen: true };
            self.keep(open, &text);
        }
    }

    /// Takes in anything but the end.
    pub(super) fn add(&mut self, update: AgentUpdate) {
        let is_position = matches!(update, AgentUpdate::Position(_));
        if !matches!(update, AgentUpdate::Raw(_)) {
            self.response.is_behind = !is_position && self.response.position.is_some();
        }
        match update {
            AgentUpdate::Text(text) => self.add_text(&without_nul(text)),
            AgentUpdate::Thought(text) => self.add_thought(without_nul(text)),
            AgentUpdate::Plan(steps) => {
                self.hand_out_text();
                let message_id = self.new_message();
                self.push(EventBody::PlanUpdated(PlanUpdated { message_id, steps }));
            }
            AgentUpdate::Tool(update) => self.add_tool(*update),
            AgentUpdate::Permission(ask) => self.add_permission(*ask),
            AgentUpdate::Usage(usage) => self.usage = Some(usage.bounded()),
            AgentUpdate::Warning(warning) => self.warnings.push(warning),
            AgentUpdate::Response(id) => self.response.id = Some(without_nul(id)),
            AgentUpdate::Position(position) => self.response.position = Some(position),
            AgentUpdate::Raw(bytes) => self.ready.parts.extend(self.raw.add(&bytes)),
            AgentUpdate::Proposal(arguments) => self.proposals.push(arguments),
            AgentUpdate::OpenCall(id) => self.open_calls.push(id),
            AgentUpdate::Finished(_) => {}
        }
    }

    /// Bytes of text that wait to be written.
    pub(super) fn unwritten_bytes(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.unwritten.len())
    }

    /// What waits to be written without delay, beyond the open text.
    pub(super) fn urgent(&self) -> usize {
        let unnoted =
            self.response.is_noted && !self.response.is_id_written && self.response.id.is_some();
        self.ready.events.len() + self.ready.parts.len() + usize::from(unnoted)
    }

    /// Whether there is anything to write.
    pub(super) fn is_due(&self) -> bool {
        self.unwritten_bytes() > 0 || self.urgent() > 0
    }

    /// Whether more may be taken in before something is written.
    pub(super) fn has_room(&self) -> bool {
        self.unwritten_bytes() + self.ready.event_bytes < MAX_WAITING_BYTES
            && self.ready.events.len() < MAX_WAITING_EVENTS
            && self.ready.parts.len() < MAX_WAITING_PARTS
    }

    /// Whether a crash after the next write could go on without having anything said twice: a position comes behind
    /// what it is the position of.
    pub(super) fn is_between_events(&self) -> bool {
        !self.response.is_behind
    }

    /// The provider's id of its response, once it is known.
    pub(super) fn response_id(&self) -> Option<&String> {
        self.response.id.as_ref()
    }

    /// Takes back parts of which nobody knows whether they were written.
    pub(super) fn take_back(&mut self, parts: Vec<Part>) {
        self.ready.parts.splice(0..0, parts);
    }

    /// Hands out everything that waits.
    pub(super) fn take(&mut self) -> Ready {
        self.hand_out_text();
        if self.response.is_noted
            && let Some(id) = &self.response.id
        {
            self.response.is_id_written = true;
            self.ready.response = Some((id.clone(), self.response.position));
            self.ready.parts.extend(self.raw.flush());
        }
        std::mem::take(&mut self.ready)
    }

    /// Closes what is open and hands out everything that waits, with the payload of the raw response if there was one.
    pub(super) fn finish(&mut self, ending: Ending) -> (Ready, Option<PayloadId>) {
        self.close_text(ending);
        self.close_questions();
        for (message_id, tool) in std::mem::take(&mut self.open_tools) {
            let closed = ToolUpdate { status: "failed".to_owned(), ..tool };
            self.push(EventBody::ToolCompleted(tool_change(message_id, closed)));
        }
        if let Some(usage) = self.usage {
            self.push(EventBody::UsageRecorded(usage));
        }
        let raw = self.raw.finish(self.turn.log).map(|(raw, rest)| {
            let id = raw.id;
            self.ready.parts.extend(rest);
            self.ready.payloads.push(raw);
            id
        });
        (std::mem::take(&mut self.ready), raw)
    }

    /// The whole answer: what the agent said, message by message.
    pub(super) fn answer(&mut self) -> Whole {
        std::mem::take(&mut self.said).finish(self.turn.log, || self.new_payload())
    }

    fn add_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.first_text_at.is_none() {
            self.first_text_at = Some(self.platform.now());
        }
        let open = self.open.take().unwrap_or_else(|| {
            self.begin_message();
            let kept = Growing::new(self.new_payload());
            OpenText { id: self.new_message(), kept, unwritten: String::new(), is_seen: false }
        });
        let unwritten = open.unwritten + text;
        self.keep(OpenText { unwritten, ..open }, text);
        if self.coalescing == Coalescing::EveryChunk {
            self.hand_out_text();
        }
    }

    fn begin_message(&mut self) {
        let platform = &self.platform;
        let new_id = || PayloadId::from_uuid(platform.new_id());
        self.ready.parts.extend(self.said.begin_message(new_id));
    }

    /// The text belongs to the open message, and to the answer.
    fn keep(&mut self, mut open: OpenText, text: &str) {
        self.ready.parts.extend(open.kept.add(text.as_bytes()));
        self.ready.parts.extend(self.said.add(text));
        self.open = Some(open);
    }

    /// Thoughts that follow each other before a write become one event, as long as it is short.
    fn add_thought(&mut self, text: String) {
        self.hand_out_text();
        let mut message_id = None;
        if let Some(NewEvent { body: EventBody::ThoughtDelta(last), .. }) =
            self.ready.events.last_mut()
        {
            if last.text.len() + text.len() <= MAX_EVENT_TEXT_BYTES {
                last.text.push_str(&text);
                self.ready.event_bytes += text.len();
                return;
            }
            message_id = Some(last.message_id);
        }
        let message_id = message_id.unwrap_or_else(|| self.new_message());
        for text in pieces(text) {
            self.push(EventBody::ThoughtDelta(TextDelta { message_id, role: None, text }));
        }
    }

    /// A tool call closes the open text. Calls are known by id; updates may come in any order.
    fn add_tool(&mut self, update: ToolUpdate) {
        if self.closed_tools.contains(&update.id) {
            return;
        }
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
            self.closed_tools.insert(tool.id.clone());
            self.push(EventBody::ToolCompleted(tool_change(message_id, tool)));
        } else {
            self.open_tools.push((message_id, tool));
        }
    }

    /// A question may come before anything was told of the call that it is about.
    fn add_permission(&mut self, ask: PermissionAsk) {
        self.add_tool(ask.tool.clone());
        let asked = Asked::new(&self.turn, ask, self.platform.now());
        self.push(asked.requested());
        if let Some(resolved) = asked.resolved() {
            self.push(resolved);
        }
        self.has_asked = true;
        self.ready.asked.push(asked);
    }

    /// Questions that nobody has seen yet are called off with the turn.
    fn close_questions(&mut self) {
        for mut asked in std::mem::take(&mut self.ready.asked) {
            if let Some(resolved) = asked.call_off() {
                self.push(resolved);
            }
            self.ready.asked.push(asked);
        }
    }

    fn hand_out_text(&mut self) {
        let Some(open) = &mut self.open else { return };
        let (message_id, role) = (open.id, Some(Role::Agent));
        let unwritten = std::mem::take(&mut open.unwritten);
        open.is_seen |= !unwritten.is_empty();
        for text in pieces(unwritten) {
            self.push(EventBody::MessageDelta(TextDelta { message_id, role, text }));
        }
    }

    /// A message that nobody has seen a part of needs no delta: its end carries it whole.
    fn close_text(&mut self, ending: Ending) {
        if self.open.as_ref().is_some_and(|open| open.is_seen) {
            self.hand_out_text();
        }
        let Some(OpenText { id: message_id, kept: mut text, .. }) = self.open.take() else {
            return;
        };
        let (partial, interrupted) = (Some(false), ending == Ending::CutOff);
        let short = text.whole().filter(|text| text.len() <= MAX_EVENT_TEXT_BYTES);
        let (content, is_payload) = match short.map(String::from_utf8_lossy) {
            Some(text) => {
                let text = text.into_owned();
                (MessageContent::Text { text, partial, interrupted }, false)
            }
            None => {
                let (payload, rest) = text.finish(self.turn.log, TEXT);
                let content =
                    MessageContent::TextPayload { payload: payload.id, partial, interrupted };
                self.ready.parts.extend(rest);
                self.ready.payloads.push(payload);
                (content, true)
            }
        };
        let message = MessageCompleted { message_id, role: Role::Agent, content };
        self.push(EventBody::MessageCompleted(message));
        self.said.close_message(Message { text, is_payload });
    }

    fn push(&mut self, body: EventBody) {
        let at = self.platform.now();
        self.ready.event_bytes += weight(&body);
        self.ready.events.push(event(&self.turn, at, body));
    }

    fn new_message(&self) -> MessageId {
        MessageId::from_uuid(self.platform.new_id())
    }

    fn new_payload(&self) -> PayloadId {
        PayloadId::from_uuid(self.platform.new_id())
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
