//! Repositories and contexts. A context's versions are only ever added.

use rusqlite::params;
use skein_core::{
    model::{AgentContextVersion, Binding, ConversationContext, Document, Repo, Sha256Hash},
    ports::Conflict,
};

use super::{
    super::{
        error::{Fault, OrConflict},
        rows::{int, key},
    },
    Target, must_change,
};
use crate::codec;

const AGENT_CONTEXT: &str = "agent context";
const CONVERSATION_CONTEXT: &str = "conversation context";

pub(super) fn create_repo(target: &Target<'_>, repo: &Repo) -> Result<(), Fault> {
    target
        .connection
        .prepare_cached(
            "INSERT INTO repos (org_id, id, name, path, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            key(&target.org),
            key(&repo.id),
            repo.name,
            repo.path,
            repo.created_at.as_millis(),
        ])
        .or_exists("repository")?;
    Ok(())
}

pub(super) fn create_document(target: &Target<'_>, document: &Document) -> Result<(), Fault> {
    target
        .connection
        .prepare_cached(
            "INSERT INTO documents
                 (org_id, id, log_id, name, media_type, payload_id, size, created_by, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            key(&target.org),
            key(&document.id),
            key(&document.log),
            document.name,
            document.media_type,
            key(&document.text),
            int(document.size_bytes),
            key(&document.created_by),
            document.created_at.as_millis(),
        ])
        .or_exists("document")?;
    Ok(())
}

/// The contexts of the instance have no org, so none of these statements reaches them.
pub(super) fn put_agent_context(
    target: &Target<'_>,
    put: &AgentContextVersion,
) -> Result<(), Fault> {
    let (id, version) = (key(&put.context.id), put.context.version);
    if version == 1 {
        target
            .connection
            .prepare_cached(
                "INSERT INTO agent_contexts (id, org_id, name, origin, current_version)
                 VALUES (?1, ?2, ?3, 'api', 1)",
            )?
            .execute(params![id, key(&target.org), put.context.name])
            .or_exists(AGENT_CONTEXT)?;
    } else {
        let moved = target
            .connection
            .prepare_cached(
                "UPDATE agent_contexts SET current_version = ?3
                 WHERE org_id = ?1 AND id = ?2 AND current_version = ?3 - 1",
            )?
            .execute(params![key(&target.org), id, version])?;
        let is_known = "SELECT 1 FROM agent_contexts WHERE org_id = ?1 AND id = ?2";
        expect_moved(target, moved, (is_known, id), AGENT_CONTEXT)?;
    }
    let json = codec::json(AGENT_CONTEXT, &codec::required(AGENT_CONTEXT, put.spec.refined())?)?;
    target
        .connection
        .prepare_cached(
            "INSERT INTO agent_context_versions
                 (context_id, version, org_id, spec, spec_hash, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            id,
            version,
            key(&target.org),
            codec::pack(&json),
            Sha256Hash::of(&json).as_bytes(),
            put.created_at.as_millis(),
        ])
        .or_exists(AGENT_CONTEXT)?;
    Ok(())
}

pub(super) fn put_conversation_context(
    target: &Target<'_>,
    put: &ConversationContext,
) -> Result<(), Fault> {
    let id = key(&put.id);
    if put.version == 1 {
        target
            .connection
            .prepare_cached(
                "INSERT INTO conversation_contexts (org_id, id, name, current_version)
                 VALUES (?1, ?2, ?3, 1)",
            )?
            .execute(params![key(&target.org), id, put.name])
            .or_exists(CONVERSATION_CONTEXT)?;
    } else {
        let moved = target
            .connection
            .prepare_cached(
                "UPDATE conversation_contexts SET current_version = ?3
                 WHERE org_id = ?1 AND id = ?2 AND current_version = ?3 - 1 AND origin = 'api'",
            )?
            .execute(params![key(&target.org), id, put.version])?;
        let is_known = "SELECT 1 FROM conversation_contexts WHERE org_id = ?1 AND id = ?2";
        expect_moved(target, moved, (is_known, id), CONVERSATION_CONTEXT)?;
    }
    let json = codec::json(CONVERSATION_CONTEXT, &put.spec)?;
    target
        .connection
        .prepare_cached(
            "INSERT INTO conversation_context_versions
                 (org_id, context_id, version, spec, spec_hash, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            key(&target.org),
            id,
            put.version,
            codec::pack(&json),
            Sha256Hash::of(&json).as_bytes(),
            put.created_at.as_millis(),
        ])
        .or_exists(CONVERSATION_CONTEXT)?;
    Ok(())
}

/// What a session is bound to must be there, in the version it names, for its org. Only a key over the org could say so
/// for agents too, and those of the instance have none.
pub(super) fn expect_bound(target: &Target<'_>, binding: &Binding) -> Result<(), Fault> {
    let found = target
        .connection
        .prepare_cached(
            "SELECT 1 FROM agent_contexts c
             JOIN agent_context_versions v ON v.context_id = c.id AND v.version = ?3
             WHERE c.id = ?2 AND (c.org_id = ?1 OR c.org_id IS NULL)",
        )?
        .exists(params![
            key(&target.org),
            key(&binding.agent_context),
            binding.agent_context_version
        ])?;
    must_change(usize::from(found), AGENT_CONTEXT)?;
    let Some((context, version)) = binding.conversation_context else { return Ok(()) };
    let found = target
        .connection
        .prepare_cached(
            "SELECT 1 FROM conversation_context_versions
             WHERE org_id = ?1 AND context_id = ?2 AND version = ?3",
        )?
        .exists(params![key(&target.org), key(&context), version])?;
    must_change(usize::from(found), CONVERSATION_CONTEXT)
}

/// A version that is not the next one was written by somebody else first.
fn expect_moved(
    target: &Target<'_>,
    moved: usize,
    (is_known, id): (&str, &[u8; 16]),
    entity: &'static str,
) -> Result<(), Fault> {
    if moved > 0 {
        return Ok(());
    }
    let is_known =
        target.connection.prepare_cached(is_known)?.exists(params![key(&target.org), id])?;
    let conflict =
        if is_known { Conflict::AlreadyExists(entity) } else { Conflict::Missing(entity) };
    Err(conflict.into())
}
