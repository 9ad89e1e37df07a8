//! The one write port. A write is a value: services build a [`ChangeSet`], an engine applies it whole.

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;

use super::{
    AuditReads, ChainReads, DocumentReads, EventReads, IdempotencyReads, PayloadReads, PeopleReads,
    PermissionReads, RegistryReads, SessionReads, SystemStore, TurnReads, UsageReads,
};
use crate::model::{
    AgentContextVersion, ChainItem, Checkpoint, ConversationContext, Document, Event, EventBody,
    LiveChain, LogId, Org, PayloadId, Permission, PermissionState, Repo, Scope, Session, SessionId,
    Sha256Hash, Ticket, TicketId, TicketStatus, Timestamp, Token, TokenId, Turn, TurnId, User,
    UserId,
};

/// Everything one use case changes, applied whole or not at all.
#[derive(Debug, Clone, Default)]
pub struct ChangeSet {
    pub lane: Lane,
    /// What must still be true. Else [`StoreError::Conflict`].
    pub expects: Vec<Expectation>,
    /// Applied in order, before the events are appended.
    pub writes: Vec<Write>,
    /// Appended in order; each log's counter gives the `seq`.
    pub events: Vec<NewEvent>,
    pub audit: Vec<AuditEntry>,
    pub idempotency: Option<IdempotencyRecord>,
}

/// Who waits for a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lane {
    /// A person or an agent waits for it.
    #[default]
    Interactive,
    /// Large or in the background: it gives way, a bounded piece at a time.
    Bulk,
}

/// What a change set was decided on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expectation {
    /// Nobody changed the session's state or editable fields since it was read.
    SessionRevision { session: SessionId, revision: u64 },
    /// The turn has no outcome yet. Else [`Conflict::TurnFinished`].
    TurnPending { turn: TurnId },
    /// The turn is pending and has not started. Else [`Conflict::TurnFinished`] or [`Conflict::TurnStarted`].
    TurnQueued { turn: TurnId },
    /// No turn of the log is pending, started or queued. Else [`Conflict::TurnRunning`].
    LogIdle { log: LogId },
    /// No started turn of the log is pending; queued ones may wait. Else [`Conflict::TurnRunning`].
    NoTurnRunning { log: LogId },
    /// At most `below` − 1 turns of the log are pending. Else [`Conflict::LimitReached`].
    PendingTurnsBelow { log: LogId, below: u32 },
}

/// One change. Each engine interprets these in one place.
#[derive(Debug, Clone)]
pub enum Write {
    CreateOrg(Org),
    CreateUser(User),
    /// Writes name, role and whether the user is disabled.
    SaveUser(User),
    CreateToken(Token),
    /// A token that is revoked already stays as it is.
    RevokeToken {
        token: TokenId,
        at: Timestamp,
    },
    /// A taken name is [`Conflict::AlreadyExists`].
    CreateRepo(Repo),
    /// Adds a version: the first one creates the context, under a name that must be free.
    PutAgentContext(Box<AgentContextVersion>),
    /// As above.
    PutConversationContext(Box<ConversationContext>),
    /// Also opens its log, its first segment and the owner's access.
    CreateSession(Box<Session>),
    /// Writes state, revision and editable fields of a session that exists.
    SaveSession(Box<Session>),
    /// Removes the session and, when nobody else reads it, its log with all that hangs on it.
    PurgeSession {
        session: SessionId,
    },
    CreateTicket(Box<Ticket>),
    SetTicketStatus {
        ticket: TicketId,
        status: TicketStatus,
    },
    /// Adds a turn with the log's next number (`turn.number` is ignored), and makes its creator a participant.
    CreateTurn {
        session: SessionId,
        turn: Box<Turn>,
    },
    /// A queued turn starts: only while it is pending and not started, and only if no other turn of the log runs.
    StartTurn {
        turn: TurnId,
        at: Timestamp,
    },
    /// Writes anew what a pending turn gives to its agent: plan, file fates, model, previous response and request payload.
    PlanTurn(Box<Turn>),
    /// What is known of the provider's response so far, so that it can be taken up after a crash.
    NoteResponse {
        turn: TurnId,
        response_id: String,
        /// The provider's number of the last event whose effect is in this change set or before it.
        position: Option<u64>,
    },
    /// Writes the outcome, only while the turn is pending. Else [`Conflict::TurnFinished`]. Its tokens are added
    /// to those of the org, the user and the log.
    FinishTurn(Box<Turn>),
    /// A completed turn becomes what the next one goes on from. A new chain number forgets what the chain before held.
    AdvanceChain {
        log: LogId,
        chain: Box<LiveChain>,
        /// What the turn added, or replaced.
        items: Vec<ChainItem>,
    },
    PutPayload(NewPayload),
    /// A part of a payload whose row follows, in this change set or a later one. A part that is there already stays as it is,
    /// so that putting it again does no harm.
    PutPayloadPart {
        payload: PayloadId,
        part: u32,
        body: Bytes,
    },
    PutCheckpoint(Box<Checkpoint>),
    /// Its payload is put in the same change set, or before.
    CreateDocument(Box<Document>),
    PutPermission(Box<Permission>),
    /// Writes the answer, only while the question is pending. Else [`Conflict::PermissionSettled`].
    SettlePermission {
        session: SessionId,
        request_id: String,
        state: PermissionState,
        answered_by: Option<UserId>,
    },
}

/// An event that has no place in its log yet.
#[derive(Debug, Clone)]
pub struct NewEvent {
    pub log: LogId,
    pub turn: Option<TurnId>,
    pub at: Timestamp,
    pub body: EventBody,
}

/// Parts are stored ahead of the row that names them, so no single write is large.
pub const PAYLOAD_PART_BYTES: usize = 256 * 1024;

/// A payload to be kept.
#[derive(Debug, Clone)]
pub struct NewPayload {
    pub id: PayloadId,
    pub log: LogId,
    pub media_type: String,
    pub sha256: Sha256Hash,
    pub size_bytes: u64,
    pub body: PayloadBody,
}

/// Where a payload's bytes are.
#[derive(Debug, Clone)]
pub enum PayloadBody {
    /// At most [`PAYLOAD_PART_BYTES`].
    Inline(Bytes),
    /// In parts 0 … `count` − 1 that were put before.
    Parts { count: u32 },
    /// The text of the `message.completed` event at this index of the same change set: nothing is stored twice.
    EventText { event_index: usize },
}

/// One line of the audit log; the engine adds org, actor and number.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    pub at: Timestamp,
    /// What was done, e.g. `session.suspended`.
    pub action: &'static str,
    /// What it was done to, e.g. `session/01890a5d-…`.
    pub target: String,
    pub detail: Value,
}

/// Remembers a creating request, in the same change set as what it created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRecord {
    /// The caller's key, unique per user.
    pub key: String,
    /// SHA-256 over method, path and body.
    pub fingerprint: Sha256Hash,
    pub resource: Resource,
    pub created_at: Timestamp,
}

/// What a creating request made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource {
    pub kind: ResourceKind,
    pub id: uuid::Uuid,
}

crate::model::named_enum! {
    /// The kinds of things that a request can create.
    ResourceKind, "resource kind" {
        Session = "session",
        Turn = "turn",
        Token = "token",
        User = "user",
        Org = "org",
        Repo = "repo",
        AgentContext = "agent_context",
        ConversationContext = "conversation_context",
        Document = "document",
    }
}

/// What the engine gave to a change set that is now durable.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Committed {
    /// The appended events with their `seq`, in the order of the change set.
    pub events: Vec<Event>,
    /// The numbers of the created turns, in the order of the change set.
    pub turn_numbers: Vec<u32>,
}

/// Why a store call failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Something is not as the change set expected. Reload and decide again.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// Nothing was written; try again later. Only when the connection to a remote engine breaks in the middle of its
    /// COMMIT can nobody know: a caller that then repeats its request does so with the same idempotency key.
    #[error("the database is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Nothing was written; reads still work.
    #[error("the disk is full")]
    Full,
    /// A stored row does not describe a valid domain object.
    #[error("stored {entity} is corrupt: {reason}")]
    Corrupt { entity: &'static str, reason: String },
}

/// What was not as expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    #[error("session {0} was changed by someone else")]
    SessionChanged(SessionId),
    #[error("a turn of this session is still pending")]
    TurnRunning,
    #[error("turn {0} is finished")]
    TurnFinished(TurnId),
    #[error("turn {0} has been started")]
    TurnStarted(TurnId),
    #[error("the question {0} has been answered or called off")]
    PermissionSettled(String),
    #[error("the {0:?} limit is reached")]
    LimitReached(LimitKind),
    #[error("the idempotency key was used before")]
    IdempotencyKeyUsed,
    /// A unique name or key is taken.
    #[error("{0} exists already")]
    AlreadyExists(&'static str),
    /// A row that the change set refers to is not there.
    #[error("{0} does not exist")]
    Missing(&'static str),
}

/// Limits that the store checks because only it can do so without a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    QueuedTurns,
}

/// The one way to change anything.
///
/// When it returns `Ok`, all of it is on disk and has its sequence numbers; when it returns `Err`, none of it is.
/// A caller that stops waiting does not stop the write.
#[async_trait]
pub trait Store: Send + Sync {
    async fn commit(&self, scope: &Scope, changes: ChangeSet) -> Result<Committed, StoreError>;
}

/// A whole engine: the write port and every read.
pub trait Storage:
    Store
    + SessionReads
    + TurnReads
    + ChainReads
    + DocumentReads
    + UsageReads
    + EventReads
    + PayloadReads
    + PeopleReads
    + PermissionReads
    + RegistryReads
    + IdempotencyReads
    + AuditReads
    + SystemStore
{
}

impl<T> Storage for T where
    T: Store
        + SessionReads
        + TurnReads
        + ChainReads
        + DocumentReads
        + UsageReads
        + EventReads
        + PayloadReads
        + PeopleReads
        + PermissionReads
        + PermissionReads
        + RegistryReads
        + IdempotencyReads
        + AuditReads
        + SystemStore
{
}
