//! Keeps a raw response exactly as it was received.

use super::growing::{Growing, Part};
use crate::{
    model::{LogId, PayloadId},
    payloads,
    ports::NewPayload,
};

/// What a provider streams.
const EVENT_STREAM: &str = "text/event-stream";

/// A raw response while it comes in.
#[derive(Debug)]
pub(super) struct RawResponse {
    kept: Growing,
    first_byte: Option<u8>,
}

impl RawResponse {
    pub(super) fn new(id: PayloadId) -> Self {
        Self { kept: Growing::new(id), first_byte: None }
    }

    /// Takes in what came, and hands out the parts that are full.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Vec<Part> {
        if self.first_byte.is_none() {
            self.first_byte = bytes.iter().copied().find(|byte| !byte.is_ascii_whitespace());
        }
        self.kept.add(bytes)
    }

    /// The whole response with the part that is still to be stored. `None` when nothing came.
    pub(super) fn finish(&mut self, log: LogId) -> Option<(NewPayload, Option<Part>)> {
        if self.kept.size_bytes() == 0 {
            return None;
        }
        let media_type = match self.first_byte {
            Some(b'{' | b'[') => payloads::JSON,
            Some(_) | None => EVENT_STREAM,
        };
        Some(self.kept.finish(log, media_type))
    }
}
