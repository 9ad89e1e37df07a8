//! Small read traits, one per aggregate. All of them see one org only.

use async_trait::async_trait;
use bytes::Bytes;

use super::{IdempotencyRecord, StoreError};
use crate::model::{
    AccessVia, AgentContextId, AgentContextVersion, AuditHead, AuditReport, AuditRow, ChainItem,
    Checkpoint, CheckpointId, ConversationContext, ConversationContextId, Document, DocumentId,
    Event, Interface, LiveChain, LogId, PayloadId, PayloadMeta, Permission, Repo, RepoId, Scope,
    Seq, Session, SessionId, SessionStateName, Timestamp, Token, TokenId, Turn, TurnId, TurnStatus,
    User, UserId,
};

/// A session with everything that its representation shows, from one query.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRecord {
    pub session: Session,
    pub org_name: String,
    pub owner_name: String,
    pub created_by_name: String,
    pub agent_context_name: String,
    pub conversation_context_name: Option<String>,
    pub repository: Option<Repo>,
    pub log: LogStats,
    /// When the provider forgets the chain that the next turn goes on from.
    pub chain_expires_at: Option<Timestamp>,
    /// How the caller came by access, beyond role and `is_public`.
    pub access: Option<AccessVia>,
}

/// The counters of a session's log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogStats {
    pub last_seq: Seq,
    /// When the newest event was appended.
    pub last_at: Option<Timestamp>,
    pub turn_count: u32,
    pub last_turn: Option<LastTurn>,
}

/// The newest turn at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastTurn {
    pub id: TurnId,
    pub status: TurnStatus,
    /// When that status was entered.
    pub at: Timestamp,
}

/// Which sessions a list may contain at all, decided by policy before the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// The whole org, for admins and owners.
    WholeOrg,
    /// What this user owns, took part in or was given, and what is public.
    ReadableBy(UserId),
    /// A token for one session.
    Only(SessionId),
}

/// What a caller wants to see of what is visible. Empty lists do not filter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionFilter {
    pub states: Vec<SessionStateName>,
    pub repo: Option<RepoId>,
    /// An agent context's name.
    pub agent: Option<String>,
    pub interface: Option<Interface>,
    /// Free text in name, key or description, case-insensitive, taken literally.
    pub text: Option<String>,
    /// Sessions that this user owns or created a turn in.
    pub user: Option<UserId>,
}

/// Newest first: a position in that order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionSort {
    pub created_at: Timestamp,
    pub id: SessionId,
}

/// A page of sessions, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionPage {
    pub sessions: Vec<SessionRecord>,
    /// Sessions that match, over all pages.
    pub total: u64,
    /// There are more than `total`; [`Counting`] says when that can be.
    pub total_is_lower_bound: bool,
    /// Where the next page begins, if there is one.
    pub next: Option<SessionSort>,
}

/// A turn with its creator's name.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRecord {
    pub turn: Turn,
    pub created_by_name: String,
}

/// Which turns of a session to read; always returned ascending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnPage {
    /// The first turns with a number above this one (0: from the start).
    After(u32),
    /// The last turns with a number below this one.
    Before(u32),
    /// The newest turns.
    Last,
}

/// Which messages of a session to read; always returned ascending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageRange {
    /// Exclusive.
    pub after: Seq,
    /// Exclusive.
    pub before: Option<Seq>,
    /// Exclusive: only messages closed later than this.
    pub since: Option<Timestamp>,
}

/// Which end of a [`MessageRange`] to take when it holds more than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessagePage {
    First(u32),
    Last(u32),
}

/// Sessions and their checkpoints.
#[async_trait]
pub trait SessionReads: Send + Sync {
    /// The session whoever in the org may read it; policy decides what the caller sees.
    async fn find_session(
        &self,
        scope: &Scope,
        session: SessionId,
    ) -> Result<Option<SessionRecord>, StoreError>;

    /// `offset` counts from the position `from`, or from the newest.
    async fn list_sessions(
        &self,
        scope: &Scope,
        query: &SessionQuery,
    ) -> Result<SessionPage, StoreError>;

    async fn find_checkpoint(
        &self,
        scope: &Scope,
        checkpoint: CheckpointId,
    ) -> Result<Option<Checkpoint>, StoreError>;
}

/// One request for a page of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionQuery {
    pub visibility: Visibility,
    pub filter: SessionFilter,
    pub from: Option<SessionSort>,
    pub offset: u64,
    pub limit: u32,
    pub counting: Counting,
}

/// How far a list counts what matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    Exact,
    /// Matches beyond this many are not looked for, so that a page does not cost the whole table.
    UpTo(u64),
}

impl Counting {
    /// How many matches to look for: one more than are told shows that there are more.
    pub fn limit(self) -> Option<u64> {
        match self {
            Self::Exact => None,
            Self::UpTo(most) => Some(most.saturating_add(1)),
        }
    }

    /// The total to tell of so many that were found, and whether it is a lower bound.
    pub fn told(self, found: u64) -> (u64, bool) {
        match self {
            Self::UpTo(most) if found > most => (most, true),
            Self::Exact | Self::UpTo(_) => (found, false),
        }
    }
}

/// Turns, through the session that reads them: a fork also reads its parent's.
#[async_trait]
pub trait TurnReads: Send + Sync {
    async fn find_turn(
        &self,
        scope: &Scope,
        session: SessionId,
        turn: TurnId,
    ) -> Result<Option<TurnRecord>, StoreError>;

    /// The turn in whatever session of the org it was made; used to answer a repeated request.
    async fn find_turn_anywhere(
        &self,
        scope: &Scope,
        turn: TurnId,
    ) -> Result<Option<TurnRecord>, StoreError>;

    async fn list_turns(
        &self,
        scope: &Scope,
        session: SessionId,
        page: TurnPage,
        limit: u32,
    ) -> Result<Vec<TurnRecord>, StoreError>;

    /// The turns of the session's own log that are pending, lowest number first.
    async fn list_pending_turns(
        &self,
        scope: &Scope,
        session: SessionId,
    ) -> Result<Vec<Turn>, StoreError>;
}

/// What the provider's side of a log holds.
#[async_trait]
pub trait ChainReads: Send + Sync {
    /// The live chain, with what it holds of these files and chunks. `None` before the first turn of a chain.
    async fn chain_view(
        &self,
        scope: &Scope,
        log: LogId,
        files: &[String],
        chunks: &[String],
    ) -> Result<Option<ChainView>, StoreError>;

    /// Everything that a chain holds, the latest sent first, at most `limit`.
    async fn chain_items(
        &self,
        scope: &Scope,
        log: LogId,
        chain: u32,
        limit: u32,
    ) -> Result<Vec<ChainItem>, StoreError>;
}

/// A live chain as planning sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainView {
    pub chain: LiveChain,
    /// What the chain holds of the files and chunks that were asked for.
    pub held: Vec<ChainItem>,
    /// The chunks that were retrieved for the chain's last turn, whatever became of them.
    pub last_chunks: Vec<String>,
}

/// Texts that were uploaded to sessions.
#[async_trait]
pub trait DocumentReads: Send + Sync {
    async fn find_document(
        &self,
        scope: &Scope,
        document: DocumentId,
    ) -> Result<Option<Document>, StoreError>;

    /// Of these logs, in the order of ids, after the given one.
    async fn list_documents(
        &self,
        scope: &Scope,
        logs: &[LogId],
        after: Option<DocumentId>,
        limit: u32,
    ) -> Result<Vec<Document>, StoreError>;

    /// The logs that a session reads: its own, and those that it was forked from.
    async fn logs_of(&self, scope: &Scope, session: SessionId) -> Result<Vec<LogId>, StoreError>;
}

/// What agents have asked.
#[async_trait]
pub trait PermissionReads: Send + Sync {
    async fn find_permission(
        &self,
        scope: &Scope,
        session: SessionId,
        request_id: &str,
    ) -> Result<Option<Permission>, StoreError>;

    /// The newest ones, oldest of them first.
    async fn list_permissions(
        &self,
        scope: &Scope,
        session: SessionId,
        limit: u32,
    ) -> Result<Vec<Permission>, StoreError>;

    /// Those that wait for an answer, oldest first.
    async fn list_pending_permissions(
        &self,
        scope: &Scope,
        session: SessionId,
    ) -> Result<Vec<Permission>, StoreError>;
}

/// Tokens that were used.
#[async_trait]
pub trait UsageReads: Send + Sync {
    /// Input and output tokens together, from the given day on (days since 1970, UTC).
    async fn tokens_used(
        &self,
        scope: &Scope,
        by: UsageSubject,
        since_day: i64,
    ) -> Result<u64, StoreError>;
}

/// Whose tokens are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageSubject {
    Org,
    User(UserId),
    Log(LogId),
}

/// The log, through the session that reads it.
#[async_trait]
pub trait EventReads: Send + Sync {
    /// Events with a `seq` above `after`, ascending, at most `limit` and about `max_bytes` of data (but at least one).
    async fn list_events(
        &self,
        scope: &Scope,
        session: SessionId,
        after: Seq,
        limit: EventLimit,
    ) -> Result<Vec<Event>, StoreError>;

    /// Events that close a message, ascending.
    async fn list_message_events(
        &self,
        scope: &Scope,
        session: SessionId,
        range: MessageRange,
        page: MessagePage,
    ) -> Result<Vec<Event>, StoreError>;
}

/// Bounds of one read of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventLimit {
    pub events: u32,
    pub bytes: usize,
}

/// Payloads. Who may read one is decided by the sessions that read its log.
#[async_trait]
pub trait PayloadReads: Send + Sync {
    async fn find_payload(
        &self,
        scope: &Scope,
        payload: PayloadId,
    ) -> Result<Option<PayloadMeta>, StoreError>;

    /// The whole body, checked against its SHA-256.
    async fn payload_body(&self, scope: &Scope, payload: PayloadId) -> Result<Bytes, StoreError>;

    /// A part that was put, whether a payload names it yet or not. A body of more than [`PAYLOAD_PART_BYTES`] is in
    /// parts, so that it can be read without being held.
    ///
    /// [`PAYLOAD_PART_BYTES`]: super::PAYLOAD_PART_BYTES
    async fn payload_part(
        &self,
        scope: &Scope,
        payload: PayloadId,
        part: u32,
    ) -> Result<Option<Bytes>, StoreError>;

    /// Whole bodies in the order of the ids; those that are not there are left out.
    async fn payload_bodies(
        &self,
        scope: &Scope,
        payloads: &[PayloadId],
    ) -> Result<Vec<(PayloadId, Bytes)>, StoreError>;

    /// The sessions that read the payload's log, the one that writes it first.
    async fn payload_readers(
        &self,
        scope: &Scope,
        payload: PayloadId,
    ) -> Result<Vec<SessionId>, StoreError>;
}

/// People and their tokens.
#[async_trait]
pub trait PeopleReads: Send + Sync {
    async fn find_user(&self, scope: &Scope, user: UserId) -> Result<Option<User>, StoreError>;

    async fn org_name(&self, scope: &Scope) -> Result<String, StoreError>;

    async fn find_token(&self, scope: &Scope, token: TokenId) -> Result<Option<Token>, StoreError>;

    /// In the order of ids, after the given one.
    async fn list_users(
        &self,
        scope: &Scope,
        after: Option<UserId>,
        limit: u32,
    ) -> Result<Vec<User>, StoreError>;

    /// Newest first, which is the order of ids backwards, before the given one. `of` limits the list to one user's tokens.
    async fn list_tokens(
        &self,
        scope: &Scope,
        of: Option<UserId>,
        before: Option<TokenId>,
        limit: u32,
    ) -> Result<Vec<Token>, StoreError>;

    /// The token that a user was given first.
    async fn find_first_token(
        &self,
        scope: &Scope,
        of: UserId,
    ) -> Result<Option<Token>, StoreError>;
}

/// What sessions can be bound to. Lists are in the order of ids, after the given one.
#[async_trait]
pub trait RegistryReads: Send + Sync {
    async fn find_repo(&self, scope: &Scope, repo: RepoId) -> Result<Option<Repo>, StoreError>;

    async fn find_repo_named(&self, scope: &Scope, name: &str) -> Result<Option<Repo>, StoreError>;

    async fn list_repos(
        &self,
        scope: &Scope,
        after: Option<RepoId>,
        limit: u32,
    ) -> Result<Vec<Repo>, StoreError>;

    /// The org's own and the instance's; the newest version unless one is named.
    async fn find_agent_context(
        &self,
        scope: &Scope,
        context: AgentContextId,
        version: Option<u32>,
    ) -> Result<Option<AgentContextVersion>, StoreError>;

    async fn list_agent_contexts(
        &self,
        scope: &Scope,
        after: Option<AgentContextId>,
        limit: u32,
    ) -> Result<Vec<AgentContextVersion>, StoreError>;

    /// The newest version unless one is named.
    async fn find_conversation_context(
        &self,
        scope: &Scope,
        context: ConversationContextId,
        version: Option<u32>,
    ) -> Result<Option<ConversationContext>, StoreError>;

    async fn list_conversation_contexts(
        &self,
        scope: &Scope,
        after: Option<ConversationContextId>,
        limit: u32,
    ) -> Result<Vec<ConversationContext>, StoreError>;
}

/// The audit log of one org.
#[async_trait]
pub trait AuditReads: Send + Sync {
    /// Sealed rows with a number above `after`, ascending.
    async fn list_audit(
        &self,
        scope: &Scope,
        after: u64,
        limit: u32,
    ) -> Result<Vec<AuditRow>, StoreError>;

    /// Reads the whole log and checks its chain; `seen` is a head that was kept elsewhere.
    async fn verify_audit(
        &self,
        scope: &Scope,
        seen: Option<AuditHead>,
    ) -> Result<AuditReport, StoreError>;
}

/// Creating requests that were seen before.
#[async_trait]
pub trait IdempotencyReads: Send + Sync {
    async fn find_idempotency(
        &self,
        scope: &Scope,
        key: &str,
    ) -> Result<Option<IdempotencyRecord>, StoreError>;
}
