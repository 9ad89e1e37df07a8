//! The session: who owns it, what it runs on, and the states it can be in.

use std::fmt;

use serde_json::{Map, Value};

use super::{
    AgentContextId, BasketId, CheckpointId, ConversationContextId, InvalidTransition, LogId, OrgId,
    RepoId, SessionId, TicketId, Timestamp, UserId, named_enum,
};

/// A durable thread of work. Its history is in the log, not here.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub id: SessionId,
    pub org: OrgId,
    /// The log that this session appends to.
    pub log: LogId,
    pub owner: UserId,
    pub created_by: UserId,
    pub state: SessionState,
    /// Counts changes of state and of editable fields; turns do not change it.
    pub revision: u64,
    pub profile: Profile,
    pub binding: Binding,
    /// Whether an agent process of its own belongs to it; never changes.
    pub is_resident: bool,
    /// The interface that last opened or resumed the session.
    pub interface: Interface,
    /// The ticket that tracks this session from its creation.
    pub task: TicketId,
    pub lineage: Option<Lineage>,
    /// The newest checkpoint, kept after the session was resumed from it.
    pub checkpoint: Option<CheckpointId>,
    /// The provider's own session id, filled in when it becomes known.
    pub provider_session_id: Option<String>,
    /// What the agent wants kept between turns.
    pub agent_state: Option<Value>,
    pub created_at: Timestamp,
    /// When state or editable fields last changed; activity in the log is kept with the log.
    pub updated_at: Timestamp,
    pub deleted_at: Option<Timestamp>,
}

/// What its owner may edit.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profile {
    pub name: Option<String>,
    pub key: Option<String>,
    pub description: Option<String>,
    pub category: Option<String>,
    pub is_public: bool,
    pub is_draft: bool,
    pub default_language: Option<String>,
    pub metadata: Map<String, Value>,
}

/// What the session is bound to, named at its creation.
#[derive(Debug, Clone, PartialEq)]
pub struct Binding {
    pub agent_context: AgentContextId,
    pub agent_context_version: u32,
    pub conversation_context: Option<(ConversationContextId, u32)>,
    /// A registered repository; its files are what an agent process may touch.
    pub repo_id: Option<RepoId>,
    /// A repository's name, used to filter retrieval.
    pub repo: Option<String>,
    pub workspace_id: Option<String>,
    /// Path patterns that retrieval is limited to.
    pub scope_paths: Vec<String>,
    pub basket: Option<(BasketId, String)>,
}

/// Where a fork left its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lineage {
    pub parent: SessionId,
    /// The last event of the parent that the fork shares.
    pub fork_seq: u64,
}

/// States carry what is only true in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionState {
    Created,
    Active,
    Suspended { checkpoint: CheckpointId, reason: String },
    Completed { reason: Option<String> },
    Cancelled { reason: Option<String> },
    Failed { reason: String },
}

named_enum! {
    /// A session state without its data: what filters and indexes use.
    SessionStateName, "session state" {
        Created = "created",
        Active = "active",
        Suspended = "suspended",
        Completed = "completed",
        Cancelled = "cancelled",
        Failed = "failed",
    }
}

named_enum! {
    /// How a caller reached the session.
    Interface, "interface" {
        Cli = "cli",
        Api = "api",
        Graphql = "graphql",
        Webhook = "webhook",
        Web = "web",
        Pipeline = "pipeline",
    }
}

/// The suspend reason that lets a prompt resume the session by itself.
pub const SERVER_RESTART: &str = "server_restart";

impl SessionStateName {
    pub fn is_final(self) -> bool {
        match self {
            Self::Completed | Self::Cancelled | Self::Failed => true,
            Self::Created | Self::Active | Self::Suspended => false,
        }
    }

    /// The arrows of the state machine. A state has no arrow to itself.
    pub fn may_become(self, next: Self) -> bool {
        match next {
            Self::Created => false,
            Self::Active => matches!(self, Self::Created | Self::Suspended),
            Self::Suspended => matches!(self, Self::Created | Self::Active),
            Self::Completed | Self::Cancelled | Self::Failed => !self.is_final(),
        }
    }
}

impl SessionState {
    pub fn name(&self) -> SessionStateName {
        match self {
            Self::Created => SessionStateName::Created,
            Self::Active => SessionStateName::Active,
            Self::Suspended { .. } => SessionStateName::Suspended,
            Self::Completed { .. } => SessionStateName::Completed,
            Self::Cancelled { .. } => SessionStateName::Cancelled,
            Self::Failed { .. } => SessionStateName::Failed,
        }
    }

    /// Why the session is in this state, where a reason was given.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Created | Self::Active => None,
            Self::Suspended { reason, .. } | Self::Failed { reason } => Some(reason),
            Self::Completed { reason } | Self::Cancelled { reason } => reason.as_deref(),
        }
    }
}

impl fmt::Display for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

impl Session {
    /// The first turn begins, or the agent process has answered.
    pub fn activate(self, at: Timestamp) -> Result<Self, InvalidTransition> {
        self.enter(SessionState::Active, at)
    }

    /// Puts the session aside with a checkpoint to come back to.
    pub fn suspend(
        self,
        checkpoint: CheckpointId,
        reason: String,
        at: Timestamp,
    ) -> Result<Self, InvalidTransition> {
        let suspended = self.enter(SessionState::Suspended { checkpoint, reason }, at)?;
        Ok(Self { checkpoint: Some(checkpoint), ..suspended })
    }

    /// Takes a suspended session up again, possibly from another interface.
    pub fn resume(
        self,
        interface: Option<Interface>,
        at: Timestamp,
    ) -> Result<Self, InvalidTransition> {
        if self.state.name() != SessionStateName::Suspended {
            return Err(self.refuse(SessionStateName::Active));
        }
        let interface = interface.unwrap_or(self.interface);
        let resumed = self.enter(SessionState::Active, at)?;
        Ok(Self { interface, ..resumed })
    }

    /// Ends the session as its owner wanted.
    pub fn complete(
        self,
        reason: Option<String>,
        at: Timestamp,
    ) -> Result<Self, InvalidTransition> {
        self.enter(SessionState::Completed { reason }, at)
    }

    /// Ends the session before its work was done.
    pub fn cancel(self, reason: Option<String>, at: Timestamp) -> Result<Self, InvalidTransition> {
        self.enter(SessionState::Cancelled { reason }, at)
    }

    /// Ends the session because its agent cannot go on.
    pub fn fail(self, reason: String, at: Timestamp) -> Result<Self, InvalidTransition> {
        self.enter(SessionState::Failed { reason }, at)
    }

    /// Replaces what the owner may edit. Final sessions can still be renamed and filed.
    pub fn edit(self, profile: Profile, at: Timestamp) -> Self {
        Self { profile, revision: self.revision + 1, updated_at: at, ..self }
    }

    /// An agent process has come up for it.
    pub fn house(self, provider_session_id: &str, profile: Profile, at: Timestamp) -> Self {
        let provider_session_id = Some(provider_session_id.to_owned());
        if self.provider_session_id == provider_session_id && self.profile == profile {
            return self;
        }
        let revision = self.revision + 1;
        Self { provider_session_id, profile, revision, updated_at: at, ..self }
    }

    /// Other contexts answer from now on.
    pub fn rebind(self, binding: Binding, at: Timestamp) -> Self {
        Self { binding, revision: self.revision + 1, updated_at: at, ..self }
    }

    /// The only place where a session changes its state.
    fn enter(self, next: SessionState, at: Timestamp) -> Result<Self, InvalidTransition> {
        if !self.state.name().may_become(next.name()) {
            return Err(self.refuse(next.name()));
        }
        Ok(Self { state: next, revision: self.revision + 1, updated_at: at, ..self })
    }

    fn refuse(&self, wanted: SessionStateName) -> InvalidTransition {
        InvalidTransition {
            entity: "session",
            id: *self.id.as_uuid(),
            from: self.state.name().as_str(),
            to: wanted.as_str(),
        }
    }
}
