//! The one model behind every interface: data, and the transitions that are allowed.

mod access;
mod audit;
mod checkpoint;
mod document;
mod event;
mod ids;
mod message;
mod payload;
mod permission;
mod plan;
mod registry;
mod session;
mod tenant;
mod ticket;
mod time;
mod turn;

use uuid::Uuid;

pub use access::{AccessVia, Scope, SystemScope};
pub use audit::{AuditHead, AuditProblem, AuditReport, AuditRow};
pub use checkpoint::{Checkpoint, CheckpointState};
pub use document::Document;
pub use event::{
    ContextPlanned, Event, EventBody, MessageCompleted, PermissionRequested, PermissionResolved,
    PlanUpdated, SessionChange, TextDelta, ToolChange, TurnEnded, TurnOpened, UnknownEvent,
};
pub use ids::*;
pub use message::{Message, MessageContent, PlanStep, Role};
pub use payload::{PayloadMeta, Sha256Hash};
pub use permission::{AskedTool, Permission, PermissionOption, PermissionState};
pub use plan::{
    ChainDecision, ChainItem, ChainItemKind, ChainPlan, ChainReason, ChunkDifference, ChunkFate,
    ChunkText, FileAction, FileBundle, FileChange, FileText, HistoryForm, LiveChain, Manifest,
    ManifestItem, ManifestTurn, SendPlan, SentTexts, TurnChunk, Volume,
};
pub use registry::{
    AgentContext, AgentContextSpec, AgentContextVersion, ConversationContext, ConversationSpec,
    Repo, VersionSpec,
};
pub use session::{
    Binding, Interface, Lineage, Profile, SERVER_RESTART, Session, SessionState, SessionStateName,
};
pub use tenant::{Org, Token, User, UserRole};
pub use ticket::{Ticket, TicketKind, TicketStatus};
pub use time::{InvalidTimestamp, Timestamp};
pub use turn::{
    Answer, Asked, Failure, FailureCode, FileFate, Mode, Response, Turn, TurnFile, TurnRequest,
    TurnState, TurnStatus, Usage,
};

/// Somebody asked for a move that the state machine does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{entity} {id} is {from} and cannot become {to}")]
pub struct InvalidTransition {
    pub entity: &'static str,
    pub id: Uuid,
    pub from: &'static str,
    pub to: &'static str,
}

/// The text is none of the words that are allowed here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is not a {what}; use one of: {allowed}")]
pub struct UnknownName {
    pub what: &'static str,
    pub value: String,
    pub allowed: String,
}

/// An enum whose variants have one stable spelling in the database and on the wire.
macro_rules! named_enum {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::model::UnknownName;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err($crate::model::UnknownName {
                        what: $what,
                        value: text.chars().take(64).collect(),
                        allowed: [$($text),+].join(", "),
                    }),
                }
            }
        }
    };
}
pub(crate) use named_enum;
