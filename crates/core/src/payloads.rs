//! Keeps full texts out of the rows that are read all the time.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use sha2::{Digest, Sha256};

use crate::{
    Error,
    model::{LogId, PayloadId, PayloadMeta, Scope, Sha256Hash},
    platform::Platform,
    ports::{ChangeSet, Lane, NewPayload, PAYLOAD_PART_BYTES, PayloadBody, StoreError, Write},
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
        put_part(platform, scope, Write::PutPayloadPart { payload, part, body }).await?;
        (part, start) = (part + 1, end);
    }
    Ok(part)
}

/// Stores a part ahead of the payload that will name it.
pub(crate) async fn put_part(platform: &Platform, scope: &Scope, part: Write) -> Result<(), Error> {
    let changes = ChangeSet { lane: Lane::Bulk, writes: vec![part], ..ChangeSet::default() };
    platform.commit(scope, changes).await?;
    Ok(())
}

/// A payload that its holder may read, whole or piece by piece.
#[derive(Clone)]
pub struct StoredPayload {
    platform: Arc<Platform>,
    scope: Scope,
    meta: PayloadMeta,
}

impl StoredPayload {
    pub(crate) fn new(platform: &Arc<Platform>, scope: &Scope, meta: PayloadMeta) -> Self {
        Self { platform: Arc::clone(platform), scope: scope.clone(), meta }
    }

    pub fn meta(&self) -> &PayloadMeta {
        &self.meta
    }

    /// Whether it has to be held as a whole to be read.
    pub fn is_one_piece(&self) -> bool {
        self.meta.size_bytes <= PAYLOAD_PART_BYTES as u64
    }

    pub async fn body(&self) -> Result<Bytes, Error> {
        Ok(self.platform.store.payload_body(&self.scope, self.meta.id).await?)
    }

    /// One piece at a time is in memory. Bytes that do not match their SHA-256 end in an error.
    pub fn pieces(self) -> BoxStream<'static, Result<Bytes, Error>> {
        let reading = Reading { payload: self, part: 0, read_bytes: 0, hasher: Sha256::new() };
        stream::try_unfold(reading, |mut reading| async move {
            let piece = reading.next().await?;
            Ok(piece.map(|piece| (piece, reading)))
        })
        .boxed()
    }
}

impl fmt::Debug for StoredPayload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.meta.fmt(formatter)
    }
}

/// How far a payload was read.
struct Reading {
    payload: StoredPayload,
    part: u32,
    read_bytes: u64,
    hasher: Sha256,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let StoredPayload { platform, scope, meta } = &self.payload;
        if self.read_bytes >= meta.size_bytes {
            return Ok(None);
        }
        let piece = match self.payload.is_one_piece() {
            true => Some(self.payload.body().await?),
            false => platform.store.payload_part(scope, meta.id, self.part).await?,
        };
        let piece = piece.ok_or_else(|| corrupt("a part is missing"))?;
        self.hasher.update(&piece);
        self.part += 1;
        self.read_bytes += piece.len() as u64;
        let is_whole = self.read_bytes >= meta.size_bytes;
        let sha256 = || Sha256Hash::from_bytes(self.hasher.clone().finalize().into());
        if is_whole && sha256() != meta.sha256 {
            return Err(corrupt("its body does not match its SHA-256").into());
        }
        Ok(Some(piece))
    }
}

fn corrupt(reason: &str) -> StoreError {
    StoreError::Corrupt { entity: "payload", reason: reason.to_owned() }
}
