//! Sessions as answers show them.

use serde::Serialize;
use serde_json::{Map, Value};
use skein_core::{
    model::{self, SessionState, SessionStateName},
    ports::SessionRecord,
};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{Message, Object, Ref, RetrievalScope, Time, TurnSummary};

/// A durable thread of work.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    pub id: Uuid,
    pub repo_id: Option<Uuid>,
    pub status: SessionStatus,
    /// The full state: created, active, suspended, completed, cancelled or failed.
    #[schema(example = "created")]
    pub state: &'static str,
    /// Counts changes of state and of editable fields; the `ETag` is `"r<revision>"`.
    pub revision: u64,
    pub name: Option<String>,
    pub key: Option<String>,
    pub description: Option<String>,
    pub is_public: bool,
    pub is_draft: bool,
    pub is_deleted: bool,
    pub category: Option<String>,
    #[schema(value_type = Option<Object>)]
    pub ratings: Option<Value>,
    pub owner_organization: Ref,
    pub owner_user: Ref,
    pub created_by_user: Ref,
    pub creation_date: Time,
    pub last_updated_date: Time,
    pub created_at: Time,
    /// When anything last changed, events of turns included.
    pub updated_at: Time,
    pub last_active_at: Time,
    pub agent_context_id: Uuid,
    pub agent_context_name: String,
    pub conversation_context_id: Option<Uuid>,
    pub conversation_context_name: Option<String>,
    pub workspace_id: Option<String>,
    /// A repository's name.
    pub repo: Option<String>,
    pub scope: Option<RetrievalScope>,
    pub default_language: Option<String>,
    /// The interface that last opened or resumed the session.
    pub interface: &'static str,
    pub task_id: Uuid,
    pub parent_session_id: Option<Uuid>,
    pub checkpoint_id: Option<Uuid>,
    pub chain_expires_date: Option<Time>,
    pub provider_session_id: Option<String>,
    pub basket_id: Option<Uuid>,
    pub agent_type: Option<String>,
    #[schema(value_type = Option<Object>)]
    pub agent_state: Option<Value>,
    /// What the owner stored, plus `suspend_reason` or `reason` from the state.
    pub metadata: Object,
    pub last_turn_status: Option<&'static str>,
    pub last_turn_date: Option<Time>,
    pub turn_count: u32,
}

/// A session's state in four words; `state` tells more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// Also while created or suspended.
    Active,
    Completed,
    Cancelled,
    Error,
}

impl SessionStatus {
    /// Every status with the states that it stands for.
    pub const STATES: [(&'static str, &'static [SessionStateName]); 4] = [
        (
            "active",
            &[SessionStateName::Created, SessionStateName::Active, SessionStateName::Suspended],
        ),
        ("completed", &[SessionStateName::Completed]),
        ("cancelled", &[SessionStateName::Cancelled]),
        ("error", &[SessionStateName::Failed]),
    ];
}

impl From<SessionStateName> for SessionStatus {
    fn from(state: SessionStateName) -> Self {
        match state {
            SessionStateName::Created | SessionStateName::Active | SessionStateName::Suspended => {
                Self::Active
            }
            SessionStateName::Completed => Self::Completed,
            SessionStateName::Cancelled => Self::Cancelled,
            SessionStateName::Failed => Self::Error,
        }
    }
}

/// A repository that a session is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Repository {
    pub id: Uuid,
    pub name: String,
    pub path: String,
}

/// A page of sessions, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionList {
    pub sessions: Vec<Session>,
    /// Sessions that match, over all pages.
    pub total: u64,
    /// There are more than `total`: with `q`, `agent` or `repoId`, matches are counted up to 10,000.
    pub total_is_lower_bound: bool,
    pub limit: u32,
    pub offset: u64,
    /// The `cursor` of the next page, if there is one.
    pub next_cursor: Option<String>,
}

/// A session with what `include` asked for. It is written piece by piece, so this type only documents it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionDetail {
    #[serde(flatten)]
    pub session: Session,
    #[schema(required = false)]
    pub repository: Option<Repository>,
    #[schema(required = false)]
    pub messages: Vec<Message>,
    #[schema(required = false)]
    pub turns: Vec<TurnSummary>,
}

impl From<SessionRecord> for Session {
    fn from(record: SessionRecord) -> Self {
        let SessionRecord { session, log, .. } = record;
        let state = session.state.name();
        let updated_at = log.last_at.map_or(session.updated_at, |at| at.max(session.updated_at));
        let metadata = Object(with_reason(session.profile.metadata, &session.state));
        let reference = |id: &Uuid, text: String| Ref { id: *id, text };
        let paths = session.binding.scope_paths;
        let (basket_id, agent_type) = session.binding.basket.unzip();
        Self {
            id: *session.id.as_uuid(),
            repo_id: session.binding.repo_id.map(|id| *id.as_uuid()),
            status: state.into(),
            state: state.as_str(),
            revision: session.revision,
            name: session.profile.name,
            key: session.profile.key,
            description: session.profile.description,
            is_public: session.profile.is_public,
            is_draft: session.profile.is_draft,
            is_deleted: session.deleted_at.is_some(),
            category: session.profile.category,
            ratings: None,
            owner_organization: reference(session.org.as_uuid(), record.org_name),
            owner_user: reference(session.owner.as_uuid(), record.owner_name),
            created_by_user: reference(session.created_by.as_uuid(), record.created_by_name),
            creation_date: session.created_at.into(),
            last_updated_date: updated_at.into(),
            created_at: session.created_at.into(),
            updated_at: updated_at.into(),
            last_active_at: updated_at.into(),
            agent_context_id: *session.binding.agent_context.as_uuid(),
            agent_context_name: record.agent_context_name,
            conversation_context_id: session
                .binding
                .conversation_context
                .map(|(id, _)| *id.as_uuid()),
            conversation_context_name: record.conversation_context_name,
            workspace_id: session.binding.workspace_id,
            repo: session.binding.repo,
            scope: (!paths.is_empty()).then_some(RetrievalScope { paths }),
            default_language: session.profile.default_language,
            interface: session.interface.as_str(),
            task_id: *session.task.as_uuid(),
            parent_session_id: session.lineage.map(|lineage| *lineage.parent.as_uuid()),
            checkpoint_id: session.checkpoint.map(|id| *id.as_uuid()),
            chain_expires_date: record.chain_expires_at.map(Time),
            provider_session_id: session.provider_session_id,
            basket_id: basket_id.map(|id| *id.as_uuid()),
            agent_type,
            agent_state: session.agent_state,
            metadata,
            last_turn_status: log.last_turn.map(|turn| turn.status.as_str()),
            last_turn_date: log.last_turn.map(|turn| turn.at.into()),
            turn_count: log.turn_count,
        }
    }
}

impl From<model::Repo> for Repository {
    fn from(repo: model::Repo) -> Self {
        Self { id: *repo.id.as_uuid(), name: repo.name, path: repo.path }
    }
}

/// The state's reason is shown where document C looks for it; it is not stored there.
fn with_reason(mut metadata: Map<String, Value>, state: &SessionState) -> Map<String, Value> {
    let key = match state {
        SessionState::Suspended { .. } => "suspend_reason",
        SessionState::Created
        | SessionState::Active
        | SessionState::Completed { .. }
        | SessionState::Cancelled { .. }
        | SessionState::Failed { .. } => "reason",
    };
    if let Some(reason) = state.reason() {
        metadata.insert(key.to_owned(), Value::from(reason));
    }
    metadata
}
