//! Sessions, lists of them, and their checkpoints.

use async_trait::async_trait;
use skein_core::{
    model::{
        AgentContextId, BasketId, Binding, Checkpoint, CheckpointId, ConversationContextId,
        Lineage, LogId, OrgId, Profile, Repo, RepoId, Scope, Session, SessionId, SessionState,
        SessionStateName, TicketId, UserId,
    },
    ports::{LogStats, SessionPage, SessionQuery, SessionReads, SessionRecord, StoreError},
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    super::{
        PostgresStore,
        apply::last_turn,
        connection::{Params, Transaction},
        error::Fault,
        rows::Columns,
    },
    session_list,
};

/// A session with all that its representation shows; $1 is the org, $2 the caller.
macro_rules! select_records {
    ($rest:literal) => {
        concat!(
            "SELECT s.*, o.name AS org_name, w.name AS owner_name, c.name AS created_by_name,
                    agent.name AS agent_context_name, context.name AS conversation_context_name,
                    r.name AS repository_name, r.path AS repository_path, r.created_at AS repository_created_at,
                    l.last_seq, l.last_at, l.turn_count, l.last_turn_id, l.last_turn_status, l.last_turn_at,
                    CASE WHEN chain.response_id IS NOT NULL THEN chain.expires_at END AS chain_expires_at,
                    mine.via AS access
             FROM sessions s
             JOIN orgs o ON o.id = s.org_id
             JOIN users w ON w.org_id = s.org_id AND w.id = s.owner_user
             JOIN users c ON c.org_id = s.org_id AND c.id = s.created_by
             JOIN agent_contexts agent ON agent.id = s.agent_context_id
             LEFT JOIN conversation_contexts context
                    ON context.org_id = s.org_id AND context.id = s.conversation_context_id
             LEFT JOIN repos r ON r.org_id = s.org_id AND r.id = s.repo_id
             JOIN logs l ON l.org_id = s.org_id AND l.id = s.log_id
             LEFT JOIN chains chain ON chain.org_id = s.org_id AND chain.log_id = s.log_id
             LEFT JOIN session_access mine
                    ON mine.org_id = s.org_id AND mine.session_id = s.id AND mine.principal = $2
             WHERE s.org_id = $1 ",
            $rest
        )
    };
}

const FIND: &str = select_records!("AND s.id = $3");
const FIND_ALL: &str = select_records!("AND s.id = ANY ($3) ORDER BY s.created_at DESC, s.id DESC");

#[async_trait]
impl SessionReads for PostgresStore {
    async fn find_session(
        &self,
        scope: &Scope,
        session: SessionId,
    ) -> Result<Option<SessionRecord>, StoreError> {
        let mut client = self.client().await?;
        let transaction = Transaction::finding(&mut client, scope);
        let params: Params<'_> = &[scope.org.as_uuid(), scope.user.as_uuid(), session.as_uuid()];
        Ok(transaction.query_opt(FIND, params).await?.as_ref().map(record).transpose()?)
    }

    async fn list_sessions(
        &self,
        scope: &Scope,
        query: &SessionQuery,
    ) -> Result<SessionPage, StoreError> {
        let mut client = self.client().await?;
        let transaction = Transaction::reading(&mut client, scope);
        Ok(session_list::list(&transaction, scope, query).await?)
    }

    async fn find_checkpoint(
        &self,
        scope: &Scope,
        checkpoint: CheckpointId,
    ) -> Result<Option<Checkpoint>, StoreError> {
        let mut client = self.client().await?;
        let transaction = Transaction::reading(&mut client, scope);
        let row = transaction
            .query_opt(
                "SELECT id, session_id, seq, reason, state, at FROM checkpoints
                 WHERE org_id = $1 AND id = $2",
                &[scope.org.as_uuid(), checkpoint.as_uuid()],
            )
            .await?;
        Ok(row.as_ref().map(read_checkpoint).transpose()?)
    }
}

/// Newest first. One query with all its joins, so that a page costs one walk down each tree per session.
pub(super) async fn find_all(
    transaction: &Transaction<'_>,
    scope: &Scope,
    ids: &[Uuid],
) -> Result<Vec<SessionRecord>, Fault> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let params: Params<'_> = &[scope.org.as_uuid(), scope.user.as_uuid(), &ids];
    transaction.query(FIND_ALL, params).await?.iter().map(record).collect()
}

fn record(row: &Row) -> Result<SessionRecord, Fault> {
    let columns = Columns::new("session", row);
    let repository = match columns.opt_id("repo_id", RepoId::from_uuid)? {
        Some(id) => Some(Repo {
            id,
            name: columns.get("repository_name")?,
            path: columns.get("repository_path")?,
            created_at: columns.time("repository_created_at")?,
        }),
        None => None,
    };
    Ok(SessionRecord {
        session: session(&columns)?,
        org_name: columns.get("org_name")?,
        owner_name: columns.get("owner_name")?,
        created_by_name: columns.get("created_by_name")?,
        agent_context_name: columns.get("agent_context_name")?,
        conversation_context_name: columns.get("conversation_context_name")?,
        repository,
        log: LogStats {
            last_seq: columns.counter("last_seq")?,
            last_at: columns.opt_time("last_at")?,
            turn_count: columns.small("turn_count")?,
            last_turn: last_turn(&columns)?,
        },
        chain_expires_at: columns.opt_time("chain_expires_at")?,
        access: columns.opt_word("access")?,
    })
}

fn session(row: &Columns<'_>) -> Result<Session, Fault> {
    let parent = row.opt_id("parent_id", SessionId::from_uuid)?;
    let fork_seq = row.opt_counter("fork_seq")?;
    Ok(Session {
        id: row.id("id", SessionId::from_uuid)?,
        org: row.id("org_id", OrgId::from_uuid)?,
        log: row.id("log_id", LogId::from_uuid)?,
        owner: row.id("owner_user", UserId::from_uuid)?,
        created_by: row.id("created_by", UserId::from_uuid)?,
        state: state(row)?,
        revision: row.counter("revision")?,
        profile: profile(row)?,
        binding: binding(row)?,
        is_resident: row.get("is_resident")?,
        interface: row.word("interface")?,
        task: row.id("task_id", TicketId::from_uuid)?,
        lineage: parent.zip(fork_seq).map(|(parent, fork_seq)| Lineage { parent, fork_seq }),
        checkpoint: row.opt_id("checkpoint_id", CheckpointId::from_uuid)?,
        provider_session_id: row.get("provider_session_id")?,
        agent_state: row.opt_json("agent_state")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
        deleted_at: row.opt_time("deleted_at")?,
    })
}

fn state(row: &Columns<'_>) -> Result<SessionState, Fault> {
    let reason: Option<String> = row.get("state_reason")?;
    let needed = || row.corrupt("its state has no reason");
    Ok(match row.word("state")? {
        SessionStateName::Created => SessionState::Created,
        SessionStateName::Active => SessionState::Active,
        SessionStateName::Suspended => SessionState::Suspended {
            checkpoint: row.id("checkpoint_id", CheckpointId::from_uuid)?,
            reason: reason.ok_or_else(needed)?,
        },
        SessionStateName::Completed => SessionState::Completed { reason },
        SessionStateName::Cancelled => SessionState::Cancelled { reason },
        SessionStateName::Failed => SessionState::Failed { reason: reason.ok_or_else(needed)? },
    })
}

fn profile(row: &Columns<'_>) -> Result<Profile, Fault> {
    Ok(Profile {
        name: row.get("name")?,
        key: row.get("key")?,
        description: row.get("description")?,
        category: row.get("category")?,
        is_public: row.get("is_public")?,
        is_draft: row.get("is_draft")?,
        default_language: row.get("language")?,
        metadata: row.opt_json("metadata")?.unwrap_or_default(),
    })
}

fn binding(row: &Columns<'_>) -> Result<Binding, Fault> {
    let context = row.opt_id("conversation_context_id", ConversationContextId::from_uuid)?;
    let basket = row.opt_id("basket_id", BasketId::from_uuid)?;
    Ok(Binding {
        agent_context: row.id("agent_context_id", AgentContextId::from_uuid)?,
        agent_context_version: row.small("agent_context_version")?,
        conversation_context: match context {
            Some(id) => Some((id, row.small("conversation_context_version")?)),
            None => None,
        },
        repo_id: row.opt_id("repo_id", RepoId::from_uuid)?,
        repo: row.get("repo")?,
        workspace_id: row.get("workspace_id")?,
        scope_paths: row.list("scope_paths")?,
        basket: match basket {
            Some(id) => Some((id, row.get("agent_type")?)),
            None => None,
        },
    })
}

fn read_checkpoint(row: &Row) -> Result<Checkpoint, Fault> {
    let row = Columns::new("checkpoint", row);
    Ok(Checkpoint {
        id: row.id("id", CheckpointId::from_uuid)?,
        session: row.id("session_id", SessionId::from_uuid)?,
        seq: row.counter("seq")?,
        reason: row.get("reason")?,
        state: row.opt_json("state")?.unwrap_or_default(),
        at: row.time("at")?,
    })
}
