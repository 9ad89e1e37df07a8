//! Sessions with everything that their representation shows.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use skein_core::{
    model::{
        Binding, Checkpoint, CheckpointId, Lineage, Profile, Repo, Scope, Session, SessionId,
        SessionState, SessionStateName,
    },
    ports::{
        LastTurn, LogStats, SessionPage, SessionQuery, SessionReads, SessionRecord, StoreError,
    },
};

use super::{
    super::{
        SqliteStore,
        error::Fault,
        rows::{Columns, key},
    },
    session_list,
};

#[async_trait]
impl SessionReads for SqliteStore {
    async fn find_session(
        &self,
        scope: &Scope,
        session: SessionId,
    ) -> Result<Option<SessionRecord>, StoreError> {
        let scope = scope.clone();
        self.readers.read(move |connection| find(connection, &scope, session)).await
    }

    async fn list_sessions(
        &self,
        scope: &Scope,
        query: &SessionQuery,
    ) -> Result<SessionPage, StoreError> {
        let (scope, query) = (scope.clone(), query.clone());
        self.readers.read(move |connection| session_list::list(connection, &scope, &query)).await
    }

    async fn find_checkpoint(
        &self,
        scope: &Scope,
        checkpoint: CheckpointId,
    ) -> Result<Option<Checkpoint>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT id, session_id, seq, reason, state, at FROM checkpoints
                         WHERE org_id = ?1 AND id = ?2 AND session_id IS NOT NULL",
                    )?
                    .query_row(params![key(&org), key(&checkpoint)], |row| Ok(read_checkpoint(row)))
                    .optional()?
                    .transpose()
            })
            .await
    }
}

/// One query with all its joins, so that a session costs one walk down each tree.
pub(super) fn find(
    connection: &Connection,
    scope: &Scope,
    session: SessionId,
) -> Result<Option<SessionRecord>, Fault> {
    connection
        .prepare_cached(
            "SELECT s.id, s.org_id, s.log_id, s.owner_user, s.created_by,
                 s.state, s.state_reason, s.checkpoint_id, s.revision,
                 s.name, s.key, s.description, s.category, s.is_public, s.is_draft, s.language,
                 s.metadata,
                 s.agent_context_id, s.agent_context_version,
                 s.conversation_context_id, s.conversation_context_version,
                 s.repo_id, s.repo, s.workspace_id, s.scope_paths, s.basket_id, s.agent_type,
                 s.is_resident, s.interface, s.task_id, s.parent_id, s.fork_seq, s.provider_session_id,
                 s.agent_state, s.created_at, s.updated_at, s.deleted_at,
                 o.name, ou.name, cu.name, ac.name, cc.name, r.id, r.name, r.path, r.created_at,
                 l.last_seq, l.last_at, l.turn_count, l.last_turn_id, l.last_turn_status,
                 l.last_turn_at, iif(ch.response_id IS NULL, NULL, ch.expires_at), a.via
             FROM sessions s
             JOIN orgs o ON o.id = s.org_id
             JOIN users ou ON ou.org_id = s.org_id AND ou.id = s.owner_user
             JOIN users cu ON cu.org_id = s.org_id AND cu.id = s.created_by
             JOIN agent_contexts ac ON ac.id = s.agent_context_id
             JOIN logs l ON l.org_id = s.org_id AND l.id = s.log_id
             LEFT JOIN chains ch ON ch.org_id = s.org_id AND ch.log_id = s.log_id
             LEFT JOIN conversation_contexts cc
                 ON cc.org_id = s.org_id AND cc.id = s.conversation_context_id
             LEFT JOIN repos r ON r.org_id = s.org_id AND r.id = s.repo_id
             LEFT JOIN session_access a
                 ON a.org_id = s.org_id AND a.principal = ?3 AND a.session_id = s.id
             WHERE s.org_id = ?1 AND s.id = ?2",
        )?
        .query_row(params![key(&scope.org), key(&session), key(&scope.user)], |row| Ok(record(row)))
        .optional()?
        .transpose()
}

fn record(row: &Row<'_>) -> Result<SessionRecord, Fault> {
    let mut columns = Columns::new("session", row);
    let session = session(&mut columns)?;
    Ok(SessionRecord {
        session,
        org_name: columns.get()?,
        owner_name: columns.get()?,
        created_by_name: columns.get()?,
        agent_context_name: columns.get()?,
        conversation_context_name: columns.get()?,
        repository: repository(&mut columns)?,
        log: log_stats(&mut columns)?,
        chain_expires_at: columns.opt_time()?,
        access: columns.opt_word()?,
    })
}

fn session(columns: &mut Columns<'_, '_>) -> Result<Session, Fault> {
    let (id, org, log) = (columns.id()?, columns.id()?, columns.id()?);
    let (owner, created_by) = (columns.id()?, columns.id()?);
    let (name, reason, checkpoint) = (columns.word()?, columns.get()?, columns.opt_id()?);
    let state = state(columns, name, reason, checkpoint)?;
    Ok(Session {
        id,
        org,
        log,
        owner,
        created_by,
        state,
        revision: columns.counter()?,
        profile: Profile {
            name: columns.get()?,
            key: columns.get()?,
            description: columns.get()?,
            category: columns.get()?,
            is_public: columns.get()?,
            is_draft: columns.get()?,
            default_language: columns.get()?,
            metadata: columns.opt_json()?.unwrap_or_default(),
        },
        binding: Binding {
            agent_context: columns.id()?,
            agent_context_version: columns.get()?,
            conversation_context: columns.opt_id()?.zip(columns.get()?),
            repo_id: columns.opt_id()?,
            repo: columns.get()?,
            workspace_id: columns.get()?,
            scope_paths: columns.opt_json()?.unwrap_or_default(),
            basket: columns.opt_id()?.zip(columns.get()?),
        },
        is_resident: columns.get()?,
        interface: columns.word()?,
        task: columns.id()?,
        lineage: columns
            .opt_id()?
            .zip(columns.get::<Option<i64>>()?)
            .map(|(parent, seq)| Lineage { parent, fork_seq: seq.unsigned_abs() }),
        checkpoint,
        provider_session_id: columns.get()?,
        agent_state: columns.opt_json()?,
        created_at: columns.time()?,
        updated_at: columns.time()?,
        deleted_at: columns.opt_time()?,
    })
}

fn state(
    columns: &Columns<'_, '_>,
    name: SessionStateName,
    reason: Option<String>,
    checkpoint: Option<CheckpointId>,
) -> Result<SessionState, Fault> {
    match (name, reason, checkpoint) {
        (SessionStateName::Created, ..) => Ok(SessionState::Created),
        (SessionStateName::Active, ..) => Ok(SessionState::Active),
        (SessionStateName::Suspended, Some(reason), Some(checkpoint)) => {
            Ok(SessionState::Suspended { checkpoint, reason })
        }
        (SessionStateName::Completed, reason, _) => Ok(SessionState::Completed { reason }),
        (SessionStateName::Cancelled, reason, _) => Ok(SessionState::Cancelled { reason }),
        (SessionStateName::Failed, Some(reason), _) => Ok(SessionState::Failed { reason }),
        (name @ (SessionStateName::Suspended | SessionStateName::Failed), ..) => {
            Err(columns.corrupt(format!("it is {name} without what that state needs")))
        }
    }
}

fn repository(columns: &mut Columns<'_, '_>) -> Result<Option<Repo>, Fault> {
    let (id, name, path) = (columns.opt_id()?, columns.get()?, columns.get()?);
    Ok(match (id, name, path, columns.opt_time()?) {
        (Some(id), Some(name), Some(path), Some(created_at)) => {
            Some(Repo { id, name, path, created_at })
        }
        _ => None,
    })
}

fn log_stats(columns: &mut Columns<'_, '_>) -> Result<LogStats, Fault> {
    let (last_seq, last_at, turn_count) = (columns.counter()?, columns.opt_time()?, columns.get()?);
    let last_turn = match (columns.opt_id()?, columns.opt_word()?, columns.opt_time()?) {
        (Some(id), Some(status), Some(at)) => Some(LastTurn { id, status, at }),
        _ => None,
    };
    Ok(LogStats { last_seq, last_at, turn_count, last_turn })
}

fn read_checkpoint(row: &Row<'_>) -> Result<Checkpoint, Fault> {
    let mut columns = Columns::new("checkpoint", row);
    Ok(Checkpoint {
        id: columns.id()?,
        session: columns.id()?,
        seq: columns.counter()?,
        reason: columns.get()?,
        state: columns.json()?,
        at: columns.time()?,
    })
}
