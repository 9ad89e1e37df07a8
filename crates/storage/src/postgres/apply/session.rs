//! Sessions, their tickets and their checkpoints.

use serde_json::{Map, Value};
use skein_core::{
    model::{
        AccessVia, Checkpoint, Session, SessionId, SessionState, SessionStateName, Ticket,
        TicketId, TicketStatus,
    },
    ports::{Conflict, StoreError},
};

use uuid::Uuid;

use super::{
    super::{
        EVERYONE,
        error::Fault,
        rows::{Columns, int, moment, pack_list, small},
    },
    Applying,
    event::LogState,
};
use crate::codec;

const INSERT_SESSION: &str = "INSERT INTO sessions (
    org_id, id, log_id, owner_user, created_by, state, state_reason, revision,
    name, key, description, category, is_public, is_draft, language, metadata,
    agent_context_id, agent_context_version, conversation_context_id, conversation_context_version,
    repo_id, repo, workspace_id, scope_paths, basket_id, agent_type, interface, task_id,
    parent_id, fork_seq, checkpoint_id, provider_session_id, agent_state,
    created_at, updated_at, deleted_at, is_resident
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
          $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37)";

const SAVE_SESSION: &str = "UPDATE sessions SET
    state = $3, state_reason = $4, revision = $5, name = $6, key = $7, description = $8, category = $9,
    is_public = $10, is_draft = $11, language = $12, metadata = $13, agent_context_id = $14,
    agent_context_version = $15, conversation_context_id = $16, conversation_context_version = $17,
    repo_id = $18, repo = $19, workspace_id = $20, scope_paths = $21, interface = $22,
    checkpoint_id = $23, provider_session_id = $24, agent_state = $25, updated_at = $26, deleted_at = $27
WHERE org_id = $1 AND id = $2";

/// Why everyone in the org may read a session.
const PUBLIC: &str = "public";

impl Applying<'_> {
    pub(super) async fn create_session(&mut self, session: &Session) -> Result<(), Fault> {
        self.own(session.org)?;
        self.expect_bound(&session.binding).await?;
        self.transaction
            .execute(
                "INSERT INTO logs (org_id, id) VALUES ($1, $2)",
                &[self.org(), session.log.as_uuid()],
            )
            .await?;
        self.logs.insert(session.log, LogState::default());
        self.insert_session(session).await?;
        self.transaction
            .execute(
                "INSERT INTO session_segments (org_id, session_id, from_seq, log_id, first_turn)
                 VALUES ($1, $2, 1, $3, 1)",
                &[self.org(), session.id.as_uuid(), session.log.as_uuid()],
            )
            .await?;
        self.give_access(session.id, *session.owner.as_uuid(), AccessVia::Owner.as_str()).await?;
        if session.profile.is_public {
            self.give_access(session.id, EVERYONE, PUBLIC).await?;
        }
        Ok(())
    }

    pub(super) async fn save_session(&self, session: &Session) -> Result<(), Fault> {
        self.own(session.org)?;
        let before = self
            .transaction
            .query_opt(
                "SELECT state, is_public FROM sessions WHERE org_id = $1 AND id = $2
                 FOR NO KEY UPDATE",
                &[self.org(), session.id.as_uuid()],
            )
            .await?
            .ok_or(Conflict::Missing("session"))?;
        self.expect_bound(&session.binding).await?;
        self.update_session(session).await?;
        let before = Columns::new("session", &before);
        let (state, was_public): (SessionStateName, bool) =
            (before.word("state")?, before.get("is_public")?);
        let is_public = session.profile.is_public;
        if state == session.state.name() && was_public == is_public {
            return Ok(());
        }
        self.follow(session).await?;
        match (was_public, is_public) {
            (false, true) => self.give_access(session.id, EVERYONE, PUBLIC).await,
            (true, false) => self.take_access(session.id, EVERYONE).await,
            (true, true) | (false, false) => Ok(()),
        }
    }

    async fn update_session(&self, session: &Session) -> Result<(), Fault> {
        let (profile, binding) = (&session.profile, &session.binding);
        let context = binding.conversation_context;
        self.transaction
            .execute(
                SAVE_SESSION,
                &[
                    self.org(),
                    session.id.as_uuid(),
                    &session.state.name().as_str(),
                    &session.state.reason(),
                    &int(session.revision),
                    &profile.name,
                    &profile.key,
                    &profile.description,
                    &profile.category,
                    &profile.is_public,
                    &profile.is_draft,
                    &profile.default_language,
                    &pack_map(&profile.metadata)?,
                    binding.agent_context.as_uuid(),
                    &small(binding.agent_context_version),
                    &context.map(|(id, _)| *id.as_uuid()),
                    &context.map(|(_, version)| small(version)),
                    &binding.repo_id.map(|repo| *repo.as_uuid()),
                    &binding.repo,
                    &binding.workspace_id,
                    &pack_list("session", &binding.scope_paths)?,
                    &session.interface.as_str(),
                    &checkpoint_of(session).map(|id| *id.as_uuid()),
                    &session.provider_session_id,
                    &pack_value(session.agent_state.as_ref())?,
                    &moment(session.updated_at),
                    &session.deleted_at.map(moment),
                ],
            )
            .await?;
        Ok(())
    }

    /// Lists scan the access rows, so these carry what lists are filtered and counted by.
    async fn follow(&self, session: &Session) -> Result<(), Fault> {
        self.transaction
            .execute(
                "UPDATE session_access SET state = $3, is_public = $4
                 WHERE org_id = $1 AND session_id = $2",
                &[
                    self.org(),
                    session.id.as_uuid(),
                    &session.state.name().as_str(),
                    &session.profile.is_public,
                ],
            )
            .await?;
        Ok(())
    }

    pub(super) async fn purge_session(&mut self, session: SessionId) -> Result<(), Fault> {
        let purged = self
            .transaction
            .query("SELECT purge_session($1) AS purged", &[session.as_uuid()])
            .await?;
        let is_purged = purged.first().map(|row| Columns::new("session", row).get("purged"));
        match is_purged.transpose()? {
            Some(true) => Ok(()),
            Some(false) | None => Err(Conflict::Missing("session").into()),
        }
    }

    /// The strongest reason that a reader has is kept.
    ///
    /// The session is locked while its state is copied, or a change of it that goes on meanwhile would miss the new row.
    /// Whoever has access already, as nearly everyone has, locks nothing.
    pub(super) async fn give_access(
        &self,
        session: SessionId,
        principal: Uuid,
        via: &str,
    ) -> Result<(), Fault> {
        self.transaction
            .execute(
                "INSERT INTO session_access (org_id, principal, session_id, via, state, is_public, created_at)
                 SELECT org_id, $3, id, $4, state, is_public, created_at FROM sessions s
                 WHERE org_id = $1 AND id = $2 AND NOT EXISTS (
                     SELECT 1 FROM session_access a
                     WHERE a.org_id = $1 AND a.principal = $3 AND a.session_id = $2 AND a.via <> 'shared')
                 FOR SHARE OF s
                 ON CONFLICT (org_id, principal, session_id) DO UPDATE SET via = excluded.via
                 WHERE session_access.via = 'shared'",
                &[self.org(), session.as_uuid(), &principal, &via],
            )
            .await?;
        Ok(())
    }

    async fn take_access(&self, session: SessionId, principal: Uuid) -> Result<(), Fault> {
        self.transaction
            .execute(
                "DELETE FROM session_access WHERE org_id = $1 AND principal = $2 AND session_id = $3",
                &[self.org(), &principal, session.as_uuid()],
            )
            .await?;
        Ok(())
    }

    pub(super) async fn create_ticket(&self, ticket: &Ticket) -> Result<(), Fault> {
        self.transaction
            .execute(
                "INSERT INTO tickets (org_id, id, session_id, kind, task_type, task_intent, source,
                                      initiated_by, status, created_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                &[
                    self.org(),
                    ticket.id.as_uuid(),
                    &ticket.session.map(|session| *session.as_uuid()),
                    &ticket.kind.as_str(),
                    &ticket.task_type,
                    &ticket.task_intent,
                    &ticket.source,
                    ticket.initiated_by.as_uuid(),
                    &ticket.status.as_str(),
                    &moment(ticket.created_at),
                ],
            )
            .await?;
        Ok(())
    }

    pub(super) async fn set_ticket_status(
        &self,
        ticket: TicketId,
        status: TicketStatus,
    ) -> Result<(), Fault> {
        let changed = self
            .transaction
            .execute(
                "UPDATE tickets SET status = $3 WHERE org_id = $1 AND id = $2",
                &[self.org(), ticket.as_uuid(), &status.as_str()],
            )
            .await?;
        if changed == 0 { Err(Conflict::Missing("ticket").into()) } else { Ok(()) }
    }

    pub(super) async fn put_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), Fault> {
        let state = codec::pack_json("checkpoint", &checkpoint.state)?;
        self.transaction
            .execute(
                "INSERT INTO checkpoints (org_id, id, session_id, seq, reason, state, at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
                &[
                    self.org(),
                    checkpoint.id.as_uuid(),
                    checkpoint.session.as_uuid(),
                    &int(checkpoint.seq),
                    &checkpoint.reason,
                    &state,
                    &moment(checkpoint.at),
                ],
            )
            .await?;
        Ok(())
    }

    async fn insert_session(&self, session: &Session) -> Result<(), Fault> {
        let (profile, binding) = (&session.profile, &session.binding);
        let context = binding.conversation_context;
        let basket = binding.basket.as_ref();
        self.transaction
            .execute(
                INSERT_SESSION,
                &[
                    self.org(),
                    session.id.as_uuid(),
                    session.log.as_uuid(),
                    session.owner.as_uuid(),
                    session.created_by.as_uuid(),
                    &session.state.name().as_str(),
                    &session.state.reason(),
                    &int(session.revision),
                    &profile.name,
                    &profile.key,
                    &profile.description,
                    &profile.category,
                    &profile.is_public,
                    &profile.is_draft,
                    &profile.default_language,
                    &pack_map(&profile.metadata)?,
                    binding.agent_context.as_uuid(),
                    &small(binding.agent_context_version),
                    &context.map(|(id, _)| *id.as_uuid()),
                    &context.map(|(_, version)| small(version)),
                    &binding.repo_id.map(|repo| *repo.as_uuid()),
                    &binding.repo,
                    &binding.workspace_id,
                    &pack_list("session", &binding.scope_paths)?,
                    &basket.map(|(id, _)| *id.as_uuid()),
                    &basket.map(|(_, agent_type)| agent_type),
                    &session.interface.as_str(),
                    session.task.as_uuid(),
                    &session.lineage.map(|lineage| *lineage.parent.as_uuid()),
                    &session.lineage.map(|lineage| int(lineage.fork_seq)),
                    &checkpoint_of(session).map(|id| *id.as_uuid()),
                    &session.provider_session_id,
                    &pack_value(session.agent_state.as_ref())?,
                    &moment(session.created_at),
                    &moment(session.updated_at),
                    &session.deleted_at.map(moment),
                    &session.is_resident,
                ],
            )
            .await?;
        Ok(())
    }
}

/// A suspended session's checkpoint is its newest one.
fn checkpoint_of(session: &Session) -> Option<skein_core::model::CheckpointId> {
    match &session.state {
        SessionState::Suspended { checkpoint, .. } => Some(*checkpoint),
        SessionState::Created
        | SessionState::Active
        | SessionState::Completed { .. }
        | SessionState::Cancelled { .. }
        | SessionState::Failed { .. } => session.checkpoint,
    }
}

fn pack_map(map: &Map<String, Value>) -> Result<Option<Vec<u8>>, StoreError> {
    if map.is_empty() { Ok(None) } else { codec::pack_json("session", map).map(Some) }
}

fn pack_value(value: Option<&Value>) -> Result<Option<Vec<u8>>, StoreError> {
    value.map(|value| codec::pack_json("session", value)).transpose()
}
