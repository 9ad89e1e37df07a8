//! What the configuration makes known to the whole instance: agents, and conversation contexts that every org has.

use rusqlite::{Connection, OptionalExtension, params};
use skein_core::model::{
    AgentContext, AgentContextId, ConversationContext, ConversationContextId, Sha256Hash, Timestamp,
};

use super::super::{
    error::Fault,
    rows::{Columns, key},
};
use crate::codec;

const CONVERSATION_CONTEXT: &str = "conversation context";

/// A name keeps the id it first got; another specification is the next version.
pub(super) fn agent(
    connection: &Connection,
    agent: &AgentContext,
    spec: &str,
    now: Timestamp,
) -> Result<AgentContext, Fault> {
    let hash = Sha256Hash::of(spec.as_bytes());
    let mut statement = connection.prepare_cached(
        "SELECT c.id, c.current_version, v.spec_hash FROM agent_contexts c
         JOIN agent_context_versions v ON v.context_id = c.id AND v.version = c.current_version
         WHERE c.org_id IS NULL AND c.name = ?1",
    )?;
    let mut rows = statement.query(params![agent.name])?;
    let stored: Option<(AgentContextId, u32, Sha256Hash)> = match rows.next()? {
        None => None,
        Some(row) => {
            let mut columns = Columns::new("agent context", row);
            Some((columns.id()?, columns.get()?, columns.hash()?))
        }
    };
    let (id, version) = match stored {
        Some((id, version, known)) if known == hash => {
            return Ok(AgentContext { id, name: agent.name.clone(), version });
        }
        Some((id, version, _)) => {
            connection
                .prepare_cached("UPDATE agent_contexts SET current_version = ?2 WHERE id = ?1")?
                .execute(params![key(&id), version + 1])?;
            (id, version + 1)
        }
        None => {
            connection
                .prepare_cached(
                    "INSERT INTO agent_contexts (id, name, origin, current_version)
                     VALUES (?1, ?2, 'config', 1)",
                )?
                .execute(params![key(&agent.id), agent.name])?;
            (agent.id, 1)
        }
    };
    connection
        .prepare_cached(
            "INSERT INTO agent_context_versions (context_id, version, spec, spec_hash, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            key(&id),
            version,
            codec::pack(spec.as_bytes()),
            hash.as_bytes(),
            now.as_millis(),
        ])?;
    Ok(AgentContext { id, name: agent.name.clone(), version })
}

/// Registers these, and retires those that were registered before and are not among them.
pub(super) fn conversation_contexts(
    connection: &Connection,
    contexts: &[ConversationContext],
    now: Timestamp,
) -> Result<(), Fault> {
    for context in contexts {
        conversation_context(connection, context)?;
    }
    let names: Vec<&str> = contexts.iter().map(|context| context.name.as_str()).collect();
    let retired = connection
        .prepare_cached(
            "UPDATE configured_conversation_contexts SET retired_at = ?2
             WHERE retired_at IS NULL AND name NOT IN (SELECT value FROM json_each(?1))",
        )?
        .execute(params![codec::json_text(CONVERSATION_CONTEXT, &names)?, now.as_millis()])?;
    if retired > 0 {
        connection
            .prepare_cached(
                "UPDATE conversation_contexts SET retired_at = ?1
                 WHERE origin = 'config' AND retired_at IS NULL AND id IN (
                     SELECT id FROM configured_conversation_contexts WHERE retired_at IS NOT NULL)",
            )?
            .execute(params![now.as_millis()])?;
    }
    Ok(())
}

/// A name keeps the id it first got; another specification is the next version. What is as it was is not touched.
fn conversation_context(
    connection: &Connection,
    context: &ConversationContext,
) -> Result<(), Fault> {
    let json = codec::json(CONVERSATION_CONTEXT, &context.spec)?;
    let registered = connection
        .prepare_cached(
            "INSERT INTO configured_conversation_contexts AS c
                 (id, name, version, spec, spec_hash, created_at)
             VALUES (?1, ?2, 1, ?3, ?4, ?5)
             ON CONFLICT (name) DO UPDATE SET
                 version = c.version + (c.spec_hash <> excluded.spec_hash),
                 spec = excluded.spec, spec_hash = excluded.spec_hash, retired_at = NULL,
                 created_at = iif(c.spec_hash = excluded.spec_hash, c.created_at, excluded.created_at)
                 WHERE c.spec_hash <> excluded.spec_hash OR c.retired_at IS NOT NULL
             RETURNING id",
        )?
        .query_row(
            params![
                key(&context.id),
                context.name,
                codec::pack(&json),
                Sha256Hash::of(&json).as_bytes(),
                context.created_at.as_millis(),
            ],
            |row| Ok(Columns::new(CONVERSATION_CONTEXT, row).id::<ConversationContextId>()),
        )
        .optional()?
        .transpose()?;
    match registered {
        Some(id) => copy_to_orgs(connection, id),
        None => Ok(()),
    }
}

/// Orgs that are made later get theirs from a trigger.
fn copy_to_orgs(connection: &Connection, id: ConversationContextId) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "INSERT INTO conversation_contexts (org_id, id, name, current_version, origin)
             SELECT o.id, c.id, c.name, c.version, 'config'
             FROM orgs o, configured_conversation_contexts c WHERE c.id = ?1
             ON CONFLICT (org_id, id) DO UPDATE SET
                 current_version = excluded.current_version, retired_at = NULL",
        )?
        .execute(params![key(&id)])?;
    connection
        .prepare_cached(
            "INSERT INTO conversation_context_versions
                 (org_id, context_id, version, spec, spec_hash, created_at)
             SELECT o.id, c.id, c.version, c.spec, c.spec_hash, c.created_at
             FROM orgs o, configured_conversation_contexts c WHERE c.id = ?1
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![key(&id)])?;
    Ok(())
}
