//! Repositories and contexts. A context's versions are only ever added.

use skein_core::{
    model::{AgentContextVersion, Binding, ConversationContext, Document, Repo, Sha256Hash},
    ports::Conflict,
};

use super::{
    super::{
        connection::Params,
        error::Fault,
        rows::{int, moment, small},
    },
    Applying,
};
use crate::codec;

const AGENT_CONTEXT: &str = "agent context";
const CONVERSATION_CONTEXT: &str = "conversation context";

impl Applying<'_> {
    pub(super) async fn create_repo(&self, repo: &Repo) -> Result<(), Fault> {
        self.transaction
            .execute(
                "INSERT INTO repos (org_id, id, name, path, created_at) VALUES ($1, $2, $3, $4, $5)",
                &[
                    self.org(),
                    repo.id.as_uuid(),
                    &repo.name,
                    &repo.path,
                    &moment(repo.created_at),
                ],
            )
            .await?;
        Ok(())
    }

    pub(super) async fn create_document(&self, document: &Document) -> Result<(), Fault> {
        self.transaction
            .execute(
                "INSERT INTO documents
                     (org_id, id, log_id, name, media_type, payload_id, size, created_by, created_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                &[
                    self.org(),
                    document.id.as_uuid(),
                    document.log.as_uuid(),
                    &document.name,
                    &document.media_type,
                    document.text.as_uuid(),
                    &int(document.size_bytes),
                    document.created_by.as_uuid(),
                    &moment(document.created_at),
                ],
            )
            .await?;
        Ok(())
    }

    /// The contexts of the instance have no org, so none of these statements reaches them.
    pub(super) async fn put_agent_context(&self, put: &AgentContextVersion) -> Result<(), Fault> {
        let (id, version) = (put.context.id.as_uuid(), small(put.context.version));
        if version == 1 {
            self.transaction
                .execute(
                    "INSERT INTO agent_contexts (org_id, id, name, origin, current_version)
                     VALUES ($1, $2, $3, 'api', 1)",
                    &[self.org(), id, &put.context.name],
                )
                .await?;
        } else {
            let moved = self
                .transaction
                .execute(
                    "UPDATE agent_contexts SET current_version = $3
                     WHERE org_id = $1 AND id = $2 AND current_version = $3 - 1",
                    &[self.org(), id, &version],
                )
                .await?;
            let is_known = "SELECT 1 FROM agent_contexts WHERE org_id = $1 AND id = $2";
            self.expect_moved(moved, (is_known, &[self.org(), id]), AGENT_CONTEXT).await?;
        }
        let json =
            codec::json(AGENT_CONTEXT, &codec::required(AGENT_CONTEXT, put.spec.refined())?)?;
        self.transaction
            .execute(
                "INSERT INTO agent_context_versions (org_id, context_id, version, spec, spec_hash, created_at)
                 VALUES ($1, $2, $3, $4, $5, $6)",
                &[
                    self.org(),
                    id,
                    &version,
                    &codec::pack(&json),
                    &Sha256Hash::of(&json).as_bytes().as_slice(),
                    &moment(put.created_at),
                ],
            )
            .await?;
        Ok(())
    }

    pub(super) async fn put_conversation_context(
        &self,
        put: &ConversationContext,
    ) -> Result<(), Fault> {
        let (id, version) = (put.id.as_uuid(), small(put.version));
        if version == 1 {
            self.transaction
                .execute(
                    "INSERT INTO conversation_contexts (org_id, id, name, current_version)
                     VALUES ($1, $2, $3, 1)",
                    &[self.org(), id, &put.name],
                )
                .await?;
        } else {
            let moved = self
                .transaction
                .execute(
                    "UPDATE conversation_contexts SET current_version = $3
                     WHERE org_id = $1 AND id = $2 AND current_version = $3 - 1 AND origin = 'api'",
                    &[self.org(), id, &version],
                )
                .await?;
            let is_known = "SELECT 1 FROM conversation_contexts WHERE org_id = $1 AND id = $2";
            self.expect_moved(moved, (is_known, &[self.org(), id]), CONVERSATION_CONTEXT).await?;
        }
        let json = codec::json(CONVERSATION_CONTEXT, &put.spec)?;
        self.transaction
            .execute(
                "INSERT INTO conversation_context_versions
                     (org_id, context_id, version, spec, spec_hash, created_at)
                 VALUES ($1, $2, $3, $4, $5, $6)",
                &[
                    self.org(),
                    id,
                    &version,
                    &codec::pack(&json),
                    &Sha256Hash::of(&json).as_bytes().as_slice(),
                    &moment(put.created_at),
                ],
            )
            .await?;
        Ok(())
    }

    /// What a session is bound to must be there, in the version it names, for its org. Only a key over the org could
    /// say so for agents too, and those of the instance have none.
    pub(super) async fn expect_bound(&self, binding: &Binding) -> Result<(), Fault> {
        let version = small(binding.agent_context_version);
        self.transaction
            .query_opt(
                "SELECT 1 FROM agent_contexts c
                 JOIN agent_context_versions v ON v.context_id = c.id AND v.version = $3
                 WHERE c.id = $2 AND (c.org_id = $1 OR c.org_id IS NULL)",
                &[self.org(), binding.agent_context.as_uuid(), &version],
            )
            .await?
            .ok_or(Conflict::Missing(AGENT_CONTEXT))?;
        let Some((context, version)) = binding.conversation_context else { return Ok(()) };
        self.transaction
            .query_opt(
                "SELECT 1 FROM conversation_context_versions
                 WHERE org_id = $1 AND context_id = $2 AND version = $3",
                &[self.org(), context.as_uuid(), &small(version)],
            )
            .await?
            .ok_or(Conflict::Missing(CONVERSATION_CONTEXT))?;
        Ok(())
    }

    /// A version that is not the next one was written by somebody else first.
    async fn expect_moved(
        &self,
        moved: u64,
        (is_known, params): (&str, Params<'_>),
        entity: &'static str,
    ) -> Result<(), Fault> {
        if moved > 0 {
            return Ok(());
        }
        let conflict = match self.transaction.query_opt(is_known, params).await? {
            Some(_) => Conflict::AlreadyExists(entity),
            None => Conflict::Missing(entity),
        };
        Err(conflict.into())
    }
}
