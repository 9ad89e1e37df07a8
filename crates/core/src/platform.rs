//! What every service works with.

use std::sync::Arc;

use uuid::Uuid;

use crate::{
    Error,
    feed::Feed,
    model::{Scope, SessionId, Sha256Hash, Timestamp},
    policy::access::{self, Action},
    ports::{
        ChangeSet, Clock, Committed, IdempotencyRecord, Ids, Resource, Secrets, SessionRecord,
        Storage, Workspaces,
    },
};

/// Store, time, ids and limits, shared by all services.
pub struct Platform {
    pub store: Arc<dyn Storage>,
    pub feed: Arc<Feed>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub secrets: Arc<dyn Secrets>,
    pub workspaces: Arc<dyn Workspaces>,
    pub limits: Limits,
}

/// What an operator may change in `[limits]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub instruction_bytes: usize,
    pub active_files: usize,
    pub queued_turns: u32,
    /// Name, description and the like.
    pub field_bytes: usize,
    pub metadata_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            instruction_bytes: 1024 * 1024,
            active_files: 200,
            queued_turns: 1000,
            field_bytes: 16 * 1024,
            metadata_bytes: 256 * 1024,
        }
    }
}

/// A creating request that may be sent twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    pub key: String,
    /// SHA-256 over method, path and body.
    pub fingerprint: Sha256Hash,
}

/// What a creating use case gives back.
#[derive(Debug, Clone, PartialEq)]
pub struct Created<T> {
    pub value: T,
    /// The request was seen before, and nothing was done this time.
    pub replayed: bool,
}

/// How often a use case reloads and decides again when others are faster.
pub(crate) const RACE_ATTEMPTS: usize = 32;

impl Platform {
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn new_id(&self) -> Uuid {
        self.ids.next()
    }

    /// Commits, and tells readers once it is durable.
    pub async fn commit(&self, scope: &Scope, changes: ChangeSet) -> Result<Committed, Error> {
        let committed = self.store.commit(scope, changes).await?;
        self.feed.publish(&committed.events);
        Ok(committed)
    }

    /// The session, if the caller may do this with it.
    pub async fn session_for(
        &self,
        scope: &Scope,
        session: SessionId,
        action: Action,
    ) -> Result<SessionRecord, Error> {
        let record = self.store.find_session(scope, session).await?;
        let record = record.ok_or(Error::NotFound { entity: "session" })?;
        access::check(scope, &record, action)?;
        Ok(record)
    }

    /// What an earlier request with the same key made; another request under that key is refused.
    pub async fn find_replay(
        &self,
        scope: &Scope,
        key: Option<&IdempotencyKey>,
    ) -> Result<Option<Resource>, Error> {
        let Some(key) = key else { return Ok(None) };
        match self.store.find_idempotency(scope, &key.key).await? {
            Some(seen) if seen.fingerprint == key.fingerprint => Ok(Some(seen.resource)),
            Some(_) => Err(Error::IdempotencyKeyReused),
            None => Ok(None),
        }
    }

    pub(crate) fn idempotency_record(
        &self,
        key: Option<&IdempotencyKey>,
        resource: Resource,
    ) -> Option<IdempotencyRecord> {
        key.map(|key| IdempotencyRecord {
            key: key.key.clone(),
            fingerprint: key.fingerprint,
            resource,
            created_at: self.now(),
        })
    }
}
