//! Sessions, their tickets and their checkpoints.

use serde_json::{Map, Value};
use skein_core::{
    model::{
        AccessVia, Checkpoint, Session, SessionId, SessionState, Ticket, TicketId, TicketStatus,
        UserId,
    },
    ports::{Conflict, StoreError},
};

use super::{
    super::{
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
    created_at, updated_at, deleted_at
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
          $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36)";

const SAVE_SESSION: &str = "UPDATE sessions SET
    owner_user = $3, state = $4, state_reason = $5, revision = $6, name = $7, key = $8, description = $9,
    category = $10, is_public = $11, is_draft = $12, language = $13, metadata = $14, interface = $15,
    checkpoint_id = $16, provider_session_id = $17, agent_state = $18, updated_at = $19, deleted_at = $20
WHERE org_id = $1 AND id = $2";

impl Applying<'_> {
    pub(super) async fn create_session(&mut self, session: &Session) -> Result<(), Fault> {
        self.own(session.org)?;
        self.expect_agent(session).await?;
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
        self.give_access(session.id, session.owner, AccessVia::Owner).await
    }

    pub(super) async fn save_session(&self, session: &Session) -> Result<(), Fault> {
        self.own(session.org)?;
        let profile = &session.profile;
        let saved = self
            .transaction
            .execute(
                SAVE_SESSION,
                &[
                    self.org(),
                    session.id.as_uuid(),
                    session.owner.as_uuid(),
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
                    &session.interface.as_str(),
                    &checkpoint_of(session).map(|id| *id.as_uuid()),
                    &session.provider_session_id,
                    &pack_value(session.agent_state.as_ref())?,
                    &moment(session.updated_at),
                    &session.deleted_at.map(moment),
                ],
            )
            .await?;
        if saved == 0 {
            return Err(Conflict::Missing("session").into());
        }
        self.transaction
            .execute(
                "UPDATE session_access SET state = $3, is_public = $4
                 WHERE org_id = $1 AND session_id = $2",
                &[
                    self.org(),
                    session.id.as_uuid(),
                    &session.state.name().as_str(),
                    &profile.is_public,
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

    /// The strongest reason that a user has for access is kept.
    pub(super) async fn give_access(
        &self,
        session: SessionId,
        user: UserId,
        via: AccessVia,
    ) -> Result<(), Fault> {
        self.transaction
            .execute(
                "INSERT INTO session_access (org_id, principal, session_id, via, state, is_public, created_at)
                 SELECT org_id, $3, id, $4, state, is_public, created_at
                 FROM sessions WHERE org_id = $1 AND id = $2
                 ON CONFLICT (org_id, principal, session_id) DO UPDATE SET via = excluded.via
                 WHERE session_access.via = 'shared'",
                &[self.org(), session.as_uuid(), user.as_uuid(), &via.as_str()],
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

    /// The instance's agents have no org, so no composite key can keep another org's out: this does.
    async fn expect_agent(&self, session: &Session) -> Result<(), Fault> {
        self.transaction
            .query_opt(
                "SELECT 1 FROM agent_contexts WHERE id = $2 AND (org_id IS NULL OR org_id = $1)",
                &[self.org(), session.binding.agent_context.as_uuid()],
            )
            .await?
            .ok_or(Conflict::Missing("agent"))?;
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
