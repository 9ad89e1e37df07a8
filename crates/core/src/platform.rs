//! What every service works with.

use std::sync::{Arc, atomic::AtomicU64};

use uuid::Uuid;

use crate::{
    Error,
    feed::Feed,
    model::{Scope, SessionId, Sha256Hash, Timestamp},
    policy::access::{self, Action},
    ports::{
        ChangeSet, Clock, Committed, IdempotencyRecord, Ids, Resource, Retriever, Secrets,
        SessionRecord, Storage, Workspaces,
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
    pub retriever: Arc<dyn Retriever>,
    pub limits: Limits,
    pub context: ContextSettings,
    pub budgets: Budgets,
    /// Attempts to leave the workspace since the start.
    pub path_escapes: AtomicU64,
}

/// How much of what is known goes to an agent, in estimated tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextSettings {
    /// Passages that are looked for in a turn.
    pub passages: u32,
    pub passage_tokens: u64,
    /// What was said before, when a conversation is rebuilt.
    pub history_tokens: u64,
    /// Files and passages that were shown before, when a conversation is rebuilt.
    pub live_tokens: u64,
    /// How long a provider's chain is relied on.
    pub chain_days: u32,
}

impl Default for ContextSettings {
    fn default() -> Self {
        Self {
            passages: 8,
            passage_tokens: 8_000,
            history_tokens: 32_000,
            live_tokens: 64_000,
            chain_days: 30,
        }
    }
}

/// Tokens that may be used, input and output together. `None` does not limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Budgets {
    pub session_tokens: Option<u64>,
    pub user_tokens: Option<u64>,
    pub org_tokens: Option<u64>,
    pub period: BudgetPeriod,
}

/// Over which time the tokens of users and orgs are counted, in UTC. Those of a session are counted for its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BudgetPeriod {
    #[default]
    Always,
    Month,
    Day,
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
