//! The answer of a turn while it is said: what its agent's messages are together.

use std::sync::Arc;

use super::growing::{Growing, Part};
use crate::{
    model::{LogId, PayloadId},
    payloads::TEXT,
    policy::summary::Summary,
    ports::NewPayload,
};

/// Between messages.
const SEPARATOR: &str = "\n\n";

/// What was said so far. Of a long answer, only the beginning and the end are here.
#[derive(Debug, Default)]
pub(super) struct Said {
    summary: Summary,
    size_bytes: u64,
    messages: Messages,
}

/// Where the answer is kept.
#[derive(Debug, Default)]
enum Messages {
    #[default]
    None,
    One(Message),
    Several(Joined),
}

/// A message that is closed.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) text: Growing,
    /// Whether it is kept as a payload, rather than in the log.
    pub(super) is_payload: bool,
}

/// Several messages as one text.
#[derive(Debug)]
struct Joined {
    whole: Growing,
    /// The payload and number of the parts with which it begins.
    begins_with: Option<(PayloadId, u32)>,
}

/// An answer that is whole.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) payload: PayloadId,
    pub(super) summary: String,
    pub(super) size_bytes: u64,
    /// Not of a long one.
    pub(super) text: Option<Arc<str>>,
    pub(super) place: Place,
}

/// What is left to do for an answer to be kept.
#[derive(Debug)]
pub(super) enum Place {
    /// Nothing: it is the payload of its only message.
    Message,
    /// It is short. If it stands in an event, it need not be stored.
    Short(NewPayload),
    /// Its payload is to be named, after the parts with which it begins were copied.
    Joined { named: NewPayload, rest: Option<Part>, begins_with: Option<(PayloadId, u32)> },
}

impl Said {
    /// Another message begins: hands out what the answer then has too much of. An answer of several messages has a payload of its own.
    pub(super) fn begin_message(&mut self, new_id: impl FnOnce() -> PayloadId) -> Vec<Part> {
        if let Messages::One(Message { text, .. }) = &mut self.messages {
            let id = new_id();
            let first = std::mem::replace(text, Growing::new(id));
            let begins_with = (first.parts() > 0).then_some((first.id(), first.parts()));
            let whole = first.begin_another(id);
            self.messages = Messages::Several(Joined { whole, begins_with });
        }
        match self.messages {
            Messages::None => Vec::new(),
            Messages::One(_) | Messages::Several(_) => self.add(SEPARATOR),
        }
    }

    /// Takes in a piece of the message, and hands out the parts that are full.
    pub(super) fn add(&mut self, text: &str) -> Vec<Part> {
        self.summary.add(text);
        self.size_bytes += text.len() as u64;
        match &mut self.messages {
            Messages::Several(joined) => joined.whole.add(text.as_bytes()),
            Messages::None | Messages::One(_) => Vec::new(),
        }
    }

    pub(super) fn close_message(&mut self, message: Message) {
        if let Messages::None = self.messages {
            self.messages = Messages::One(message);
        }
    }

    /// The answer; an empty one has no payload yet.
    pub(super) fn finish(self, log: LogId, new_id: impl FnOnce() -> PayloadId) -> Whole {
        let (mut kept, place) = match self.messages {
            Messages::One(Message { text, is_payload: true }) => (text, Some(Place::Message)),
            Messages::One(Message { text, is_payload: false }) => (text, None),
            Messages::None => (Growing::new(new_id()), None),
            Messages::Several(Joined { mut whole, begins_with }) => {
                let (named, rest) = whole.finish(log, TEXT);
                (whole, Some(Place::Joined { named, rest, begins_with }))
            }
        };
        let place = place.unwrap_or_else(|| Place::Short(kept.finish(log, TEXT).0));
        let text = kept.whole().map(|text| Arc::from(String::from_utf8_lossy(text)));
        let (summary, size_bytes) = (self.summary.into_text(), self.size_bytes);
        Whole { payload: kept.id(), summary, size_bytes, text, place }
    }
}
