//! A provider's events, as updates.

use std::collections::{HashSet, VecDeque};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use skein_core::{
    model::{FailureCode, Mode},
    ports::{AgentUpdate, RuntimeFailure, ToolUpdate},
};

use super::{
    compose::PROPOSE_FILES,
    redact::StreamKey,
    wire::{Delta, ErrorObject, Head, Item, ItemHead, OfItem, OfResponse, Piece, ResponseObject},
};

/// As much text is held back for the second half of a character.
const MAX_HELD_BYTES: usize = 64 * 1024;

/// Longer ids are not taken for ids.
const MAX_ID_BYTES: usize = 512;

/// What is known before the first event.
#[derive(Debug, Clone)]
pub(super) struct Expected {
    pub(super) mode: Mode,
    /// Whether the response can be taken up by its events' numbers.
    pub(super) background: bool,
    /// Whether the call goes on from an earlier response.
    pub(super) continues: bool,
    /// The response that is taken up, and the number of the last event that has been given.
    pub(super) taken_up: Option<(String, Option<u64>)>,
}

/// How the provider says that its response ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum End {
    Answered,
    ChainLost,
    Failed(RuntimeFailure),
}

impl End {
    pub(super) fn failed(code: FailureCode, message: impl Into<String>) -> Self {
        Self::Failed(RuntimeFailure { code, message: message.into() })
    }
}

/// Why a response comes whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    /// Instead of the stream that was asked for.
    Instead,
    /// After a stream that gave everything that there is.
    AfterStream,
}

/// Whether a call has been shown. What is kept with the end of a turn, proposals and open calls, is given
/// again in any case: another process may have lost it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    NotYet,
    Elsewhere,
}

/// What a delta is a piece of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thought,
}

/// One response, as far as it has come.
#[derive(Debug)]
pub(super) struct Reply {
    expected: Expected,
    response_id: Option<String>,
    /// The number of the last event that was taken in.
    position: Option<u64>,
    /// Whether events may come again.
    replayed: bool,
    /// Whether updates were given by another process.
    begun_elsewhere: bool,
    has_text: bool,
    /// What ends in half a character, or in what may be the beginning of the key, until more comes.
    held: Option<(Kind, Piece)>,
    key: StreamKey,
    calls: HashSet<String>,
    warned_of_call: bool,
    understood: u64,
    malformed: u64,
    end: Option<End>,
}

impl Reply {
    pub(super) fn new(expected: Expected, key: StreamKey) -> Self {
        let (response_id, position) = match expected.taken_up.clone() {
            Some((id, position)) => (Some(id), position),
            None => (None, None),
        };
        Self {
            expected,
            replayed: response_id.is_some(),
            begun_elsewhere: position.is_some(),
            response_id,
            position,
            has_text: false,
            held: None,
            key,
            calls: HashSet::new(),
            warned_of_call: false,
            understood: 0,
            malformed: 0,
            end: None,
        }
    }

    pub(super) fn response_id(&self) -> Option<&str> {
        self.response_id.as_deref()
    }

    pub(super) fn continues(&self) -> bool {
        self.expected.continues
    }

    pub(super) fn position(&self) -> Option<u64> {
        self.position
    }

    pub(super) fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Whether the text of the answer is still unknown. Once a part of it came in deltas, all of it does.
    pub(super) fn wants_text(&self) -> bool {
        !self.has_text && !self.begun_elsewhere
    }

    /// Whether events came and none could be read.
    pub(super) fn is_gibberish(&self) -> bool {
        self.malformed > 0 && self.understood == 0
    }

    /// What to say about events that could not be read.
    pub(super) fn complaint(&self) -> Option<String> {
        match self.malformed {
            0 => None,
            1 => Some("1 event of the provider could not be read and was ignored".to_owned()),
            n => Some(format!("{n} events of the provider could not be read and were ignored")),
        }
    }

    /// From here on another connection gives the events.
    pub(super) fn take_up(&mut self) {
        self.replayed = true;
        // Its position was not given, so it comes again.
        if self.expected.background {
            self.held = None;
        }
    }

    /// Takes in the data of one event. After the end, nothing more is read.
    pub(super) fn take(&mut self, data: &[u8], out: &mut VecDeque<AgentUpdate>) {
        if self.end.is_some() || data.trim_ascii() == b"[DONE]" || data.is_empty() {
            return;
        }
        let Ok(head) = serde_json::from_slice::<Head>(data) else {
            self.malformed += 1;
            return;
        };
        let known = head.sequence_number.zip(self.position);
        if self.replayed && known.is_some_and(|(number, position)| number <= position) {
            return;
        }
        if self.map(&head.kind, data, out).is_none() {
            self.malformed += 1;
            return;
        }
        self.understood += 1;
        // Not for the last event: it is given again until the turn has ended. Nor for one that is held back.
        let is_given = self.end.is_none() && self.held.is_none();
        if let (true, true, Some(number)) =
            (self.expected.background, is_given, head.sequence_number)
        {
            self.position = Some(number);
            out.push_back(AgentUpdate::Position(number));
        }
    }

    /// Takes in a response that was sent without events.
    pub(super) fn take_whole(
        &mut self,
        body: &[u8],
        whole: Whole,
        out: &mut VecDeque<AgentUpdate>,
    ) {
        let Ok(response) = serde_json::from_slice::<ResponseObject>(body) else {
            self.end = Some(failed("the provider's answer is not valid JSON"));
            return;
        };
        if let Some(error) = &response.error {
            self.fail(error.clone());
            return;
        }
        self.note_id(response.id.as_deref(), out);
        match response.status.as_deref() {
            Some("failed" | "cancelled") => self.refuse(response, out),
            Some("incomplete") => self.cut_short(response, out),
            Some("queued" | "in_progress") => {}
            _ if whole == Whole::Instead && self.replayed => {
                let message = "the provider cannot go on with a stream that was cut";
                self.end = Some(End::failed(FailureCode::Interrupted, message));
            }
            _ => self.answer(response, out),
        }
    }

    /// None if the event is not what its type says.
    fn map(&mut self, kind: &str, data: &[u8], out: &mut VecDeque<AgentUpdate>) -> Option<()> {
        let delta = match kind {
            "response.output_text.delta" | "response.refusal.delta" => Some(Kind::Text),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                Some(Kind::Thought)
            }
            _ => None,
        };
        if let Some(of) = delta {
            self.piece(of, read::<Delta>(data)?.delta, out);
            return Some(());
        }
        self.give_held(out);
        match kind {
            "response.output_item.done" => {
                self.item(read::<OfItem>(data)?.item, Shown::NotYet, out);
            }
            "response.created" | "response.queued" | "response.in_progress" => {
                self.note_id(read::<OfResponse>(data)?.response.id.as_deref(), out);
            }
            "response.completed" => self.answer(read::<OfResponse>(data)?.response, out),
            "response.incomplete" => self.cut_short(read::<OfResponse>(data)?.response, out),
            "response.failed" | "response.cancelled" => {
                self.refuse(read::<OfResponse>(data)?.response, out);
            }
            "error" => self.fail(ErrorObject::read(data)?),
            // What goes wrong behind a proxy comes without a type.
            "" => self.fail(ErrorObject::read(data).filter(|error| error.message.is_some())?),
            _ => {}
        }
        Some(())
    }

    /// Gives a piece, unless it ends in the middle of a character or maybe of the key.
    fn piece(&mut self, kind: Kind, piece: Piece, out: &mut VecDeque<AgentUpdate>) {
        if self.held.as_ref().is_some_and(|(held, _)| *held != kind) {
            self.give_held(out);
        }
        let (_, held) = self.held.get_or_insert_with(|| (kind, Piece::default()));
        held.append(piece);
        if held.len() > MAX_HELD_BYTES {
            return self.give_held(out);
        }
        if held.ends_in_half_a_character() {
            return;
        }
        match self.key.begun_at_end(held.as_bytes()) {
            0 => self.give_held(out),
            // Not with what stands before it: a position is that of whole events.
            _ if self.expected.background => {}
            begun => {
                let begun = held.split_off(held.len() - begun);
                self.give_held(out);
                self.held = Some((kind, begun));
            }
        }
    }

    /// Gives what was held back and is whole all the same: nothing more comes.
    pub(super) fn give_rest(&mut self, out: &mut VecDeque<AgentUpdate>) {
        if self.held.as_ref().is_some_and(|(_, piece)| !piece.ends_in_half_a_character()) {
            self.give_held(out);
        }
    }

    fn give_held(&mut self, out: &mut VecDeque<AgentUpdate>) {
        match self.held.take().filter(|(_, piece)| !piece.is_empty()) {
            Some((Kind::Text, piece)) => {
                self.has_text = true;
                out.push_back(AgentUpdate::Text(self.key.taken_out(piece.into_text())));
            }
            Some((Kind::Thought, piece)) => {
                out.push_back(AgentUpdate::Thought(self.key.taken_out(piece.into_text())));
            }
            None => {}
        }
    }

    fn note_id(&mut self, id: Option<&str>, out: &mut VecDeque<AgentUpdate>) {
        let Some(id) = id.filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES) else { return };
        if self.response_id.is_none() {
            self.response_id = Some(id.to_owned());
            out.push_back(AgentUpdate::Response(id.to_owned()));
        }
    }

    fn answer(&mut self, response: ResponseObject<'_>, out: &mut VecDeque<AgentUpdate>) {
        self.last_of(response, out);
        self.end = Some(End::Answered);
    }

    fn cut_short(&mut self, response: ResponseObject<'_>, out: &mut VecDeque<AgentUpdate>) {
        let reason = response.incomplete_details.as_ref().and_then(|why| why.reason.clone());
        self.last_of(response, out);
        let reason = reason.unwrap_or_else(|| "the provider gave no reason".to_owned());
        out.push_back(AgentUpdate::Warning(format!("the answer is incomplete: {reason}")));
        self.end = Some(End::Answered);
    }

    fn refuse(&mut self, mut response: ResponseObject<'_>, out: &mut VecDeque<AgentUpdate>) {
        let error = response.error.take();
        let status = response.status.take().unwrap_or_else(|| "failed".to_owned());
        self.note_id(response.id.as_deref(), out);
        out.extend(response.usage.map(|usage| AgentUpdate::Usage(usage.into())));
        match error {
            Some(error) => self.fail(error),
            None => {
                self.end = Some(failed(format!("the provider says that the response is {status}")))
            }
        }
    }

    fn fail(&mut self, error: ErrorObject) {
        let is_untouched = !self.has_text && self.calls.is_empty();
        if self.expected.continues && is_untouched && error.is_lost_chain() {
            self.end = Some(End::ChainLost);
            return;
        }
        let code = error.code.map(|code| format!(" ({code})")).unwrap_or_default();
        let message = error.message.unwrap_or_else(|| "it gave no reason".to_owned());
        self.end = Some(failed(format!("the provider failed: {message}{code}")));
    }

    /// What the last event of a response says: id, usage, and whatever had no event of its own.
    fn last_of(&mut self, response: ResponseObject<'_>, out: &mut VecDeque<AgentUpdate>) {
        self.note_id(response.id.as_deref(), out);
        let wants_text = self.wants_text();
        for item in response.output {
            if ItemHead::of(item).kind != "message" {
                let shown = if self.begun_elsewhere { Shown::Elsewhere } else { Shown::NotYet };
                self.item(item, shown, out);
            } else if wants_text {
                let parts = Item::read(item).content.into_iter();
                let texts = parts.filter_map(|part| part.text.or(part.refusal));
                out.extend(texts.filter(|text| !text.is_empty()).map(AgentUpdate::Text));
            }
        }
        out.extend(response.usage.map(|usage| AgentUpdate::Usage(usage.into())));
    }

    fn is_proposal(&self, item: &Item) -> bool {
        self.expected.mode == Mode::Edit
            && item.kind == "function_call"
            && item.name.as_deref() == Some(PROPOSE_FILES)
    }

    /// Takes in a finished call. Messages and thoughts have come as deltas.
    fn item(&mut self, item: &RawValue, shown: Shown, out: &mut VecDeque<AgentUpdate>) {
        if !ItemHead::of(item).kind.ends_with("_call") {
            return;
        }
        let item = Item::read(item);
        if !self.calls.insert(item.call_key()) {
            return;
        }
        let is_function = item.kind == "function_call";
        if let (true, Some(id)) = (is_function, &item.call_id) {
            out.push_back(AgentUpdate::OpenCall(id.clone()));
        }
        if self.is_proposal(&item) {
            out.push_back(AgentUpdate::Proposal(item.arguments.unwrap_or_default()));
        } else if shown == Shown::NotYet {
            self.show(item, out);
        }
    }

    /// A call that is told and that nobody acts on.
    fn show(&mut self, item: Item, out: &mut VecDeque<AgentUpdate>) {
        let is_function = item.kind == "function_call";
        let id = item.call_key();
        let tool = item.name.unwrap_or_else(|| item.kind.clone());
        if is_function && !self.warned_of_call {
            self.warned_of_call = true;
            let warning =
                format!("the model called {tool:?}, which it was not offered; nothing ran");
            out.push_back(AgentUpdate::Warning(warning));
        }
        let args = item.arguments.map(|text| {
            serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.clone()))
        });
        out.push_back(AgentUpdate::Tool(ToolUpdate {
            id,
            tool,
            kind: if is_function { "function".to_owned() } else { item.kind },
            args,
            result: None,
            status: "completed".to_owned(),
        }));
    }
}

fn read<'a, T: Deserialize<'a>>(data: &'a [u8]) -> Option<T> {
    serde_json::from_slice(data).ok()
}

fn failed(message: impl Into<String>) -> End {
    End::failed(FailureCode::ProviderError, message)
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
