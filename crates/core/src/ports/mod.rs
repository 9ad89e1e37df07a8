//! What the core needs from the world, as traits, each with its own error.

mod clock;
mod index;
mod lookup;
mod reads;
mod resident;
mod retriever;
mod runtime;
mod store;
mod system;
mod workspace;

pub use clock::{Clock, Ids, Secrets};
pub use index::{
    IndexDocument, IndexError, IndexJob, IndexProgress, IndexState, IndexStatus, IndexWatch,
    PassageIndex,
};
pub use lookup::{Asked, LookFor, Lookup};
pub use reads::{
    AuditReads, ChainReads, ChainView, Counting, DocumentReads, EventLimit, EventReads,
    IdempotencyReads, LastTurn, LogStats, MessagePage, MessageRange, PayloadReads, PeopleReads,
    PermissionReads, RegistryReads, SessionFilter, SessionPage, SessionQuery, SessionReads,
    SessionRecord, SessionSort, TurnPage, TurnReads, TurnRecord, UsageReads, UsageSubject,
    Visibility,
};
pub use resident::{ResidentAgent, ResidentRuntime, StartAgent};
pub use retriever::{Chunk, Found, NoIndex, Origin, RetrievalQuery, RetrieveError, Retriever};
pub use runtime::{
    AgentOutcome, AgentRuntime, AgentUpdate, ChainKeeping, Coalescing, ContextNeed, Passage,
    PastTurn, PermissionAsk, Prompt, Reattach, RunRequest, RuntimeFailure, ToolUpdate,
};
pub use store::{
    AuditEntry, ChangeSet, Committed, Conflict, Expectation, IdempotencyRecord, Lane, LimitKind,
    NewEvent, NewPayload, PAYLOAD_PART_BYTES, PayloadBody, Resource, ResourceKind, Storage, Store,
    StoreError, Write,
};
pub use system::{Identity, PendingTurn, ResidentSession, SystemStore};
pub use workspace::{WorkspaceError, Workspaces};
