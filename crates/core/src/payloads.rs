//! Keeps full texts out of the rows that are read all the time.

use bytes::Bytes;

use crate::{
    Error,
    model::{LogId, PayloadId, Scope, Sha256Hash},
    platform::Platform,
    ports::{ChangeSet, Lane, NewPayload, PAYLOAD_PART_BYTES, PayloadBody, Write},
};

/// Longer texts are not repeated in the log; the event names the payload instead.
pub const MAX_EVENT_TEXT_BYTES: usize = 64 * 1024;

/// Plain text, as instructions and answers are.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// A payload whose bytes are the text of an event in the same change set.
pub(crate) fn in_event(id: PayloadId, log: LogId, text: &str, event_index: usize) -> NewPayload {
    NewPayload {
        id,
        log,
        media_type: TEXT.to_owned(),
        sha256: Sha256Hash::of(text.as_bytes()),
        size_bytes: text.len() as u64,
        body: PayloadBody::EventText { event_index },
    }
}

/// Prepares a payload for a change set. Large ones are stored in parts ahead of it; parts that no
/// payload ever names are swept later.
pub(crate) async fn stage(
    platform: &Platform,
    scope: &Scope,
    log: LogId,
    id: PayloadId,
    text: Bytes,
) -> Result<NewPayload, Error> {
    let sha256 = Sha256Hash::of(&text);
    let size_bytes = text.len() as u64;
    let body = if text.len() <= PAYLOAD_PART_BYTES {
        PayloadBody::Inline(text)
    } else {
        PayloadBody::Parts { count: put_parts(platform, scope, id, &text).await? }
    };
    Ok(NewPayload { id, log, media_type: TEXT.to_owned(), sha256, size_bytes, body })
}

async fn put_parts(
    platform: &Platform,
    scope: &Scope,
    payload: PayloadId,
    text: &Bytes,
) -> Result<u32, Error> {
    let mut part = 0;
    let mut start = 0;
    while start < text.len() {
        let end = text.len().min(start + PAYLOAD_PART_BYTES);
        let body = text.slice(start..end);
        let writes = vec![Write::PutPayloadPart { payload, part, body }];
        let changes = ChangeSet { lane: Lane::Bulk, writes, ..ChangeSet::default() };
        platform.commit(scope, changes).await?;
        (part, start) = (part + 1, end);
    }
    Ok(part)
}
