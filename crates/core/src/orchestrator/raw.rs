//! Keeps a raw response exactly as it was received, without holding it in memory.

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};

use crate::{
    model::{LogId, PayloadId, Sha256Hash},
    payloads,
    ports::{NewPayload, PAYLOAD_PART_BYTES, PayloadBody, Write},
};

/// What a provider streams.
const EVENT_STREAM: &str = "text/event-stream";

/// A raw response while it comes in.
#[derive(Debug)]
pub(super) struct RawResponse {
    id: PayloadId,
    hasher: Sha256,
    size_bytes: u64,
    parts: u32,
    first_byte: Option<u8>,
    tail: BytesMut,
}

/// A full part, to be stored ahead of the payload that names it.
#[derive(Debug, Clone)]
pub(super) struct RawPart {
    payload: PayloadId,
    part: u32,
    body: Bytes,
}

/// A whole raw response, ready to be named.
#[derive(Debug, Clone)]
pub(super) struct NewRaw {
    pub(super) id: PayloadId,
    media_type: &'static str,
    sha256: Sha256Hash,
    size_bytes: u64,
    body: PayloadBody,
}

impl RawResponse {
    pub(super) fn new(id: PayloadId) -> Self {
        Self {
            id,
            hasher: Sha256::new(),
            size_bytes: 0,
            parts: 0,
            first_byte: None,
            tail: BytesMut::new(),
        }
    }

    /// Takes in what came, and hands out the parts that are full.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Vec<RawPart> {
        self.hasher.update(bytes);
        self.size_bytes += bytes.len() as u64;
        if self.first_byte.is_none() {
            self.first_byte = bytes.iter().copied().find(|byte| !byte.is_ascii_whitespace());
        }
        self.tail.extend_from_slice(bytes);
        let mut full = Vec::new();
        while self.tail.len() > PAYLOAD_PART_BYTES {
            let body = self.tail.split_to(PAYLOAD_PART_BYTES).freeze();
            full.push(self.number(body));
        }
        full
    }

    /// The whole response with the part that is still to be stored. `None` when nothing came.
    pub(super) fn finish(mut self) -> Option<(NewRaw, Vec<RawPart>)> {
        if self.size_bytes == 0 {
            return None;
        }
        let tail = std::mem::take(&mut self.tail).freeze();
        let mut rest = Vec::new();
        let body = if self.parts == 0 {
            PayloadBody::Inline(tail)
        } else {
            rest.push(self.number(tail));
            PayloadBody::Parts { count: self.parts }
        };
        let media_type = match self.first_byte {
            Some(b'{' | b'[') => payloads::JSON,
            Some(_) | None => EVENT_STREAM,
        };
        let sha256 = Sha256Hash::from_bytes(self.hasher.finalize().into());
        let raw = NewRaw { id: self.id, media_type, sha256, size_bytes: self.size_bytes, body };
        Some((raw, rest))
    }

    fn number(&mut self, body: Bytes) -> RawPart {
        let part = self.parts;
        self.parts += 1;
        RawPart { payload: self.id, part, body }
    }
}

impl RawPart {
    pub(super) fn write(&self) -> Write {
        let Self { payload, part, body } = self.clone();
        Write::PutPayloadPart { payload, part, body }
    }
}

impl NewRaw {
    pub(super) fn write(&self, log: LogId) -> Write {
        let Self { id, media_type, sha256, size_bytes, body } = self.clone();
        let media_type = media_type.to_owned();
        Write::PutPayload(NewPayload { id, log, media_type, sha256, size_bytes, body })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn parts_and_rest_are_the_response_byte_by_byte() {
        let whole: Vec<u8> = (0..PAYLOAD_PART_BYTES * 2 + 17).map(|n| (n % 251) as u8).collect();
        let mut raw = RawResponse::new(PayloadId::from_uuid(Uuid::nil()));

        let mut parts: Vec<RawPart> =
            whole.chunks(1_000).flat_map(|piece| raw.add(piece)).collect();
        let (named, rest) = raw.finish().unwrap();
        parts.extend(rest);

        let kept: Vec<u8> = parts.iter().flat_map(|part| part.body.to_vec()).collect();
        assert_eq!(kept, whole);
        assert_eq!(named.sha256, Sha256Hash::of(&whole));
        assert!(matches!(named.body, PayloadBody::Parts { count: 3 }));
        assert!(parts.iter().all(|part| part.body.len() <= PAYLOAD_PART_BYTES));
    }
}
