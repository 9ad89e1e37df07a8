//! Reads and writes across tenants, for authentication, recovery, sweeps and start-up only.

use async_trait::async_trait;

use super::StoreError;
use crate::model::{
    AgentContext, ConversationContext, Org, OrgId, SessionId, Sha256Hash, SystemScope, Timestamp,
    Token, TurnId, User, UserId,
};

/// Who a token belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub token: Token,
    pub user: User,
    pub org: Org,
}

/// A turn that nobody has finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingTurn {
    pub org: OrgId,
    /// The session that writes the turn's log.
    pub session: SessionId,
    pub turn: TurnId,
    pub created_by: UserId,
    /// None when it was queued and never started.
    pub started_at: Option<Timestamp>,
    /// The provider's response and the position in it, if they were durable.
    pub response: Option<(String, Option<u64>)>,
}

/// A session that has an agent process of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResidentSession {
    pub org: OrgId,
    pub session: SessionId,
    pub owner: UserId,
}

/// What Skein does for itself.
#[async_trait]
pub trait SystemStore: Send + Sync {
    /// Whoever shows this secret, live or not; the caller checks the token's times.
    async fn find_identity(
        &self,
        scope: SystemScope,
        token_hash: Sha256Hash,
    ) -> Result<Option<Identity>, StoreError>;

    /// The instance owner, if the first run has happened.
    async fn find_instance_owner(&self, scope: SystemScope) -> Result<Option<User>, StoreError>;

    /// An org by its id, for the instance owner who looks after all of them.
    async fn find_org(&self, scope: SystemScope, org: OrgId) -> Result<Option<Org>, StoreError>;

    /// Chains the audit rows that wait; returns how many. Engines that chain as they commit have none.
    async fn seal_audit(&self, scope: SystemScope) -> Result<u64, StoreError>;

    /// Every pending turn in the order of their ids, at most `limit` after the given one.
    async fn list_pending(
        &self,
        scope: SystemScope,
        after: Option<TurnId>,
        limit: u32,
    ) -> Result<Vec<PendingTurn>, StoreError>;

    /// Every session, created or active, that has an agent process of its own; in the order of their ids, at most
    /// `limit` after the given one.
    async fn list_resident(
        &self,
        scope: SystemScope,
        after: Option<SessionId>,
        limit: u32,
    ) -> Result<Vec<ResidentSession>, StoreError>;

    /// Makes the configured agents known and returns their stable ids. `spec` is compared to tell a new version.
    async fn register_agents(
        &self,
        scope: SystemScope,
        agents: Vec<(AgentContext, String)>,
    ) -> Result<Vec<AgentContext>, StoreError>;

    /// Makes the configured conversation contexts known to every org, also to those that are made later. A name keeps
    /// the id it first got, and another specification is the next version, whatever `id` and `version` say here. Those
    /// that are not among them any more are found by the sessions that are bound to them, and by nobody else.
    async fn register_conversation_contexts(
        &self,
        scope: SystemScope,
        contexts: Vec<ConversationContext>,
    ) -> Result<(), StoreError>;

    /// Removes payload parts that no payload names and idempotency records, both older than `before`.
    async fn sweep(&self, scope: SystemScope, before: Timestamp) -> Result<u64, StoreError>;

    /// Answers when the store can write; part of readiness.
    async fn check(&self, scope: SystemScope) -> Result<(), StoreError>;
}
