//! Tracked units of work. A session's own ticket is its task.

use super::{
    InvalidTransition, SessionId, SessionStateName, TicketId, Timestamp, UserId, named_enum,
};

/// One tracked unit of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    pub id: TicketId,
    /// None for stateless work, and once the session was removed.
    pub session: Option<SessionId>,
    pub kind: TicketKind,
    /// `agent:<name>` for a session's task.
    pub task_type: String,
    pub task_intent: Option<String>,
    /// The interface it came from.
    pub source: String,
    pub initiated_by: UserId,
    pub status: TicketStatus,
    pub created_at: Timestamp,
}

named_enum! {
    /// Whether a ticket tracks a session or one piece of work in it.
    TicketKind, "ticket kind" {
        Task = "task",
        Work = "work",
    }
}

named_enum! {
    /// Where the work stands.
    TicketStatus, "ticket status" {
        Initialized = "initialized",
        Running = "running",
        Suspended = "suspended",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
        Archived = "archived",
    }
}

impl TicketStatus {
    /// The arrows of the ticket's state machine.
    pub fn may_become(self, next: Self) -> bool {
        match next {
            Self::Initialized => false,
            Self::Running => matches!(self, Self::Initialized | Self::Suspended),
            Self::Suspended => matches!(self, Self::Running),
            Self::Completed | Self::Failed | Self::Cancelled => {
                matches!(self, Self::Initialized | Self::Running | Self::Suspended)
            }
            Self::Archived => matches!(self, Self::Completed | Self::Failed | Self::Cancelled),
        }
    }
}

/// A task's status follows its session's state.
impl From<SessionStateName> for TicketStatus {
    fn from(state: SessionStateName) -> Self {
        match state {
            SessionStateName::Created | SessionStateName::Active => Self::Running,
            SessionStateName::Suspended => Self::Suspended,
            SessionStateName::Completed => Self::Completed,
            SessionStateName::Cancelled => Self::Cancelled,
            SessionStateName::Failed => Self::Failed,
        }
    }
}

impl Ticket {
    /// Moves the ticket along an arrow of its state machine.
    pub fn become_status(self, next: TicketStatus) -> Result<Self, InvalidTransition> {
        if !self.status.may_become(next) {
            return Err(InvalidTransition {
                entity: "ticket",
                id: *self.id.as_uuid(),
                from: self.status.as_str(),
                to: next.as_str(),
            });
        }
        Ok(Self { status: next, ..self })
    }
}
