//! Keeps a raw response exactly as it was received.

use uuid::Builder;

use super::growing::{Growing, Part};
use crate::{
    Error,
    model::{LogId, PayloadId, Scope, Sha256Hash, TurnId},
    payloads,
    platform::Platform,
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

    /// One whose bytes are stored with the events that they became, so that another process can go on with it: its payload
    /// is known by its turn.
    pub(super) fn of_turn(turn: TurnId) -> Self {
        let hash = Sha256Hash::of_parts([&b"raw response of turn "[..], turn.as_uuid().as_bytes()]);
        let mut id = [0; 16];
        id.copy_from_slice(&hash.as_bytes()[..16]);
        Self::new(PayloadId::from_uuid(Builder::from_custom_bytes(id).into_uuid()))
    }

    /// What another process has stored of it.
    pub(super) async fn recalled(
        platform: &Platform,
        scope: &Scope,
        turn: TurnId,
    ) -> Result<Self, Error> {
        let mut raw = Self::of_turn(turn);
        let store = &platform.store;
        while let Some(part) = store.payload_part(scope, raw.kept.id(), raw.kept.parts()).await? {
            raw.look_at(&part);
            raw.kept.recall(&part);
        }
        Ok(raw)
    }

    /// Takes in what came, and hands out the parts that are full.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Vec<Part> {
        self.look_at(bytes);
        self.kept.add(bytes)
    }

    /// Hands out what came since, to be stored with the events that it became.
    pub(super) fn flush(&mut self) -> Option<Part> {
        self.kept.flush()
    }

    fn look_at(&mut self, bytes: &[u8]) {
        if self.first_byte.is_none() {
            self.first_byte = bytes.iter().copied().find(|byte| !byte.is_ascii_whitespace());
        }
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
