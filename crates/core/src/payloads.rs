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

/// What was sent, and bundles.
pub const JSON: &str = "application/json";

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

/// A payload that is about to be kept.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) id: PayloadId,
    pub(crate) log: LogId,
    pub(crate) media_type: &'static str,
    pub(crate) body: Bytes,
}

impl Draft {
    pub(crate) fn text(id: PayloadId, log: LogId, text: impl Into<Bytes>) -> Self {
        Self { id, log, media_type: TEXT, body: text.into() }
    }

    pub(crate) fn json(id: PayloadId, log: LogId, json: impl Into<Bytes>) -> Self {
        Self { id, log, media_type: JSON, body: json.into() }
    }
}

/// Prepares a payload for a change set. Large ones are stored in parts ahead of it; parts that no
/// payload ever names are swept later.
pub(crate) async fn stage(
    platform: &Platform,
    scope: &Scope,
    draft: Draft,
) -> Result<NewPayload, Error> {
    let Draft { id, log, media_type, body } = draft;
    let sha256 = Sha256Hash::of(&body);
    let size_bytes = body.len() as u64;
    let body = if body.len() <= PAYLOAD_PART_BYTES {
        PayloadBody::Inline(body)
    } else {
        PayloadBody::Parts { count: put_parts(platform, scope, id, &body).await? }
    };
    Ok(NewPayload { id, log, media_type: media_type.to_owned(), sha256, size_bytes, body })
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
