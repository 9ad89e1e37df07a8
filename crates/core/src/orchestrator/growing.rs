//! A payload that is stored while it comes in, so that it is never whole in memory.

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};

use crate::{
    Error,
    model::{LogId, PayloadId, Scope, Sha256Hash},
    payloads,
    platform::Platform,
    ports::{Conflict, NewPayload, PAYLOAD_PART_BYTES, PayloadBody, StoreError, Write},
};

/// Holds one part at most; those before it were handed out.
#[derive(Debug, Clone)]
pub(super) struct Growing {
    id: PayloadId,
    hasher: Sha256,
    size_bytes: u64,
    /// Handed out so far.
    parts: u32,
    tail: BytesMut,
}

/// A part, to be stored ahead of the payload that names it.
#[derive(Debug, Clone)]
pub(super) struct Part {
    payload: PayloadId,
    part: u32,
    body: Bytes,
}

impl Growing {
    pub(super) fn new(id: PayloadId) -> Self {
        Self { id, hasher: Sha256::new(), size_bytes: 0, parts: 0, tail: BytesMut::new() }
    }

    pub(super) fn id(&self) -> PayloadId {
        self.id
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub(super) fn parts(&self) -> u32 {
        self.parts
    }

    /// Everything, as long as nothing of it was handed out.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        (self.parts == 0).then_some(&self.tail[..])
    }

    /// Takes in what came, and hands out the parts that are full.
    pub(super) fn add(&mut self, mut bytes: &[u8]) -> Vec<Part> {
        self.hasher.update(bytes);
        self.size_bytes += bytes.len() as u64;
        let mut full = Vec::new();
        while self.tail.len() + bytes.len() > PAYLOAD_PART_BYTES {
            let (head, rest) = bytes.split_at(PAYLOAD_PART_BYTES - self.tail.len());
            self.tail.extend_from_slice(head);
            full.push(self.number());
            bytes = rest;
        }
        self.tail.extend_from_slice(bytes);
        full
    }

    /// Hands out what is here although it does not fill a part, so that it can be stored.
    pub(super) fn flush(&mut self) -> Option<Part> {
        (!self.tail.is_empty()).then(|| self.number())
    }

    /// Takes in a part that was stored before.
    pub(super) fn recall(&mut self, part: &[u8]) {
        self.hasher.update(part);
        self.size_bytes += part.len() as u64;
        self.parts += 1;
    }

    /// The payload as it is now, with the part that is still to be stored. More may follow under another id.
    pub(super) fn finish(
        &mut self,
        log: LogId,
        media_type: &'static str,
    ) -> (NewPayload, Option<Part>) {
        let is_whole = self.parts == 0;
        let rest = if is_whole { None } else { self.flush() };
        let body = match is_whole {
            true => PayloadBody::Inline(Bytes::copy_from_slice(&self.tail)),
            false => PayloadBody::Parts { count: self.parts },
        };
        let sha256 = Sha256Hash::from_bytes(self.hasher.clone().finalize().into());
        let (id, size_bytes, media_type) = (self.id, self.size_bytes, media_type.to_owned());
        (NewPayload { id, log, media_type, sha256, size_bytes, body }, rest)
    }

    /// The same bytes as the beginning of another payload. Parts that were handed out are not part of it yet.
    pub(super) fn begin_another(self, id: PayloadId) -> Self {
        Self { id, ..self }
    }

    fn number(&mut self) -> Part {
        let part = Part { payload: self.id, part: self.parts, body: self.tail.split().freeze() };
        self.parts += 1;
        part
    }
}

impl Part {
    pub(super) fn write(&self) -> Write {
        let Self { payload, part, body } = self.clone();
        Write::PutPayloadPart { payload, part, body }
    }
}

/// Stores the first parts of one payload as those of another.
pub(super) async fn copy_parts(
    platform: &Platform,
    scope: &Scope,
    (from, count): (PayloadId, u32),
    to: PayloadId,
) -> Result<(), Error> {
    for part in 0..count {
        let body = platform.store.payload_part(scope, from, part).await?;
        let body = body.ok_or(StoreError::from(Conflict::Missing("payload part")))?;
        payloads::put_part(platform, scope, Write::PutPayloadPart { payload: to, part, body })
            .await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::payloads::TEXT;

    const LOG: LogId = LogId::from_uuid(Uuid::nil());

    fn id(number: u128) -> PayloadId {
        PayloadId::from_uuid(Uuid::from_u128(number))
    }

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|n| (n % 251) as u8).collect()
    }

    #[test]
    fn parts_and_rest_are_the_payload_byte_by_byte() {
        for count in [PAYLOAD_PART_BYTES + 1, PAYLOAD_PART_BYTES * 2, PAYLOAD_PART_BYTES * 2 + 17] {
            let whole = bytes(count);
            let mut growing = Growing::new(id(1));

            let pieces = whole.chunks(1_000);
            let mut parts: Vec<Part> = pieces.flat_map(|piece| growing.add(piece)).collect();
            let (named, rest) = growing.finish(LOG, TEXT);
            parts.extend(rest);

            let kept: Vec<u8> = parts.iter().flat_map(|part| part.body.to_vec()).collect();
            let numbers: Vec<u32> = parts.iter().map(|part| part.part).collect();
            assert_eq!(kept, whole);
            assert_eq!(named.sha256, Sha256Hash::of(&whole));
            assert_eq!(named.size_bytes, whole.len() as u64);
            assert_eq!(numbers, (0..numbers.len() as u32).collect::<Vec<_>>());
            assert!(
                matches!(named.body, PayloadBody::Parts { count } if count as usize == parts.len())
            );
            assert!(parts.iter().all(|part| part.body.len() <= PAYLOAD_PART_BYTES));
            assert_eq!(growing.whole(), None);
        }
    }

    #[test]
    fn what_fits_into_one_part_is_kept_with_its_row() {
        let whole = bytes(PAYLOAD_PART_BYTES);
        let mut growing = Growing::new(id(1));

        let parts = growing.add(&whole);
        let (named, rest) = growing.finish(LOG, TEXT);

        assert!(parts.is_empty() && rest.is_none());
        assert!(matches!(named.body, PayloadBody::Inline(body) if body == whole));
        assert_eq!(growing.whole(), Some(&whole[..]));
    }

    #[test]
    fn another_payload_can_begin_with_all_that_one_holds() {
        let (first, second) = (bytes(PAYLOAD_PART_BYTES + 5), b" and more");
        let mut growing = Growing::new(id(1));
        growing.add(&first);
        growing.finish(LOG, TEXT);

        let mut longer = growing.begin_another(id(2));
        longer.add(second);
        let (named, rest) = longer.finish(LOG, TEXT);

        assert_eq!(named.sha256, Sha256Hash::of_parts([&first[..], second]));
        assert_eq!(
            rest.map(|part| (part.payload, part.part, part.body)),
            Some((id(2), 2, Bytes::from_static(second)))
        );
    }
}
