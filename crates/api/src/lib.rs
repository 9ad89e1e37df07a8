//! The wire: what requests and answers look like, and how they map to the model.
//!
//! Requests refuse unknown and duplicate keys, so they use neither `flatten` nor `untagged`.

mod audit;
mod common;
mod contexts;
mod event;
mod execute;
mod message;
mod object;
mod passages;
mod people;
mod permission;
mod problem;
mod repo;
mod session;
mod session_requests;
mod token;
mod turn;
mod turn_context;

pub use audit::{AuditEntry, AuditHead, AuditList, AuditProblem, AuditProblemKind, AuditReport};
pub use common::{INVALID_ID, Id, Ref, RetrievalScope, Time, payload_url};
pub use contexts::{
    AgentContext, AgentContextList, ChangeAgentContext, ChangeConversationContext,
    ConversationContext, ConversationContextList, CreateAgentContext, CreateConversationContext,
};
pub use event::{Event, EventView};
pub use execute::{
    ActiveFile, AgentMode, Client, Execute, ExecuteResponse, FileBundle, FileChange, OnBusy,
    SentContext, Source, Usage,
};
pub use message::{Content, ContentDoc, Message, Step};
pub use object::{Members, Object};
pub use passages::{
    AddDocument, Document, DocumentList, Index, IndexProgress, IndexRepo, SearchResult,
    SearchResults,
};
pub use people::{CreateOrg, CreateUser, CreatedUser, EditUser, Org, User, UserList};
pub use permission::{AnswerPermission, Permission, PermissionOption, PermissionToolCall};
pub use problem::{Health, Problem};
pub use repo::{CreateRepo, Repo, RepoList};
pub use session::{Repository, Session, SessionDetail, SessionList, SessionStatus};
pub use session_requests::{
    CompleteSession, CreateSession, EditSession, ResumeSession, SuspendSession,
};
pub use token::{
    CreateToken, IssuedToken, Token, TokenList, TokenRole, WhoAmI, WhoAmIOrg, WhoAmIToken,
    WhoAmIUser,
};
pub use turn::{
    AcceptedTurn, ActiveFileRef, CancelTurn, ChunkRef, Prompt, Rerun, SkippedFile, Status, Turn,
    TurnList, TurnSummary,
};
pub use turn_context::{
    Chain, Context, ContextChunk, ContextFile, Difference, Rehydrated, RehydratedItem,
    RehydratedTurn,
};
