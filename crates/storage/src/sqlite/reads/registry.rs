//! Repositories and contexts: what sessions can be bound to.

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Row, params};
use skein_core::{
    model::{
        AgentContext, AgentContextId, AgentContextVersion, ConversationContext,
        ConversationContextId, Repo, RepoId, Scope, VersionSpec,
    },
    ports::{RegistryReads, StoreError},
};

use super::super::{
    SqliteStore,
    error::Fault,
    rows::{Columns, key, opt_key},
};

#[async_trait]
impl RegistryReads for SqliteStore {
    async fn find_repo(&self, scope: &Scope, repo: RepoId) -> Result<Option<Repo>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT id, name, path, created_at FROM repos WHERE org_id = ?1 AND id = ?2",
                    )?
                    .query_row(params![key(&org), key(&repo)], |row| Ok(read_repo(row)))
                    .optional()?
                    .transpose()
            })
            .await
    }

    async fn find_repo_named(&self, scope: &Scope, name: &str) -> Result<Option<Repo>, StoreError> {
        let (org, name) = (scope.org, name.to_owned());
        self.readers
            .read(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT id, name, path, created_at FROM repos
                         WHERE org_id = ?1 AND name = ?2",
                    )?
                    .query_row(params![key(&org), name], |row| Ok(read_repo(row)))
                    .optional()?
                    .transpose()
            })
            .await
    }

    async fn list_repos(
        &self,
        scope: &Scope,
        after: Option<RepoId>,
        limit: u32,
    ) -> Result<Vec<Repo>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT id, name, path, created_at FROM repos
                     WHERE org_id = ?1 AND id > coalesce(?2, x'') ORDER BY id LIMIT ?3",
                )?;
                let mut rows = statement.query(params![key(&org), opt_key(&after), limit])?;
                let mut repos = Vec::new();
                while let Some(row) = rows.next()? {
                    repos.push(read_repo(row)?);
                }
                Ok(repos)
            })
            .await
    }

    async fn find_agent_context(
        &self,
        scope: &Scope,
        context: AgentContextId,
        version: Option<u32>,
    ) -> Result<Option<AgentContextVersion>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT c.id, c.name, v.version, v.created_at, c.org_id IS NULL, v.spec
                         FROM agent_contexts c
                         JOIN agent_context_versions v
                             ON v.context_id = c.id AND v.version = coalesce(?3, c.current_version)
                         WHERE c.id = ?2 AND (c.org_id = ?1 OR c.org_id IS NULL)",
                    )?
                    .query_row(params![key(&org), key(&context), version], |row| {
                        Ok(read_agent_context(row))
                    })
                    .optional()?
                    .transpose()
            })
            .await
    }

    /// Two walks in the order of ids, merged, so that no other org's contexts are passed on the way.
    async fn list_agent_contexts(
        &self,
        scope: &Scope,
        after: Option<AgentContextId>,
        limit: u32,
    ) -> Result<Vec<AgentContextVersion>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT c.id, c.name, v.version, v.created_at, c.org_id IS NULL, v.spec
                     FROM (SELECT * FROM (SELECT * FROM agent_contexts
                               WHERE org_id = ?1 AND id > coalesce(?2, x'') ORDER BY id LIMIT ?3)
                           UNION ALL
                           SELECT * FROM (SELECT * FROM agent_contexts
                               WHERE org_id IS NULL AND id > coalesce(?2, x'') ORDER BY id LIMIT ?3)) c
                     JOIN agent_context_versions v
                         ON v.context_id = c.id AND v.version = c.current_version
                     ORDER BY c.id LIMIT ?3",
                )?;
                let mut rows = statement.query(params![key(&org), opt_key(&after), limit])?;
                let mut contexts = Vec::new();
                while let Some(row) = rows.next()? {
                    contexts.push(read_agent_context(row)?);
                }
                Ok(contexts)
            })
            .await
    }

    async fn find_conversation_context(
        &self,
        scope: &Scope,
        context: ConversationContextId,
        version: Option<u32>,
    ) -> Result<Option<ConversationContext>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT c.id, c.name, v.version, v.spec, c.origin = 'config', v.created_at
                         FROM conversation_contexts c
                         JOIN conversation_context_versions v
                             ON v.org_id = c.org_id AND v.context_id = c.id
                                 AND v.version = coalesce(?3, c.current_version)
                         WHERE c.org_id = ?1 AND c.id = ?2
                             AND (?3 IS NOT NULL OR c.retired_at IS NULL)",
                    )?
                    .query_row(params![key(&org), key(&context), version], |row| {
                        Ok(read_conversation_context(row))
                    })
                    .optional()?
                    .transpose()
            })
            .await
    }

    async fn list_conversation_contexts(
        &self,
        scope: &Scope,
        after: Option<ConversationContextId>,
        limit: u32,
    ) -> Result<Vec<ConversationContext>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT c.id, c.name, v.version, v.spec, c.origin = 'config', v.created_at
                     FROM conversation_contexts c
                     JOIN conversation_context_versions v
                         ON v.org_id = c.org_id AND v.context_id = c.id
                             AND v.version = c.current_version
                     WHERE c.org_id = ?1 AND c.id > coalesce(?2, x'') AND c.retired_at IS NULL
                     ORDER BY c.id LIMIT ?3",
                )?;
                let mut rows = statement.query(params![key(&org), opt_key(&after), limit])?;
                let mut contexts = Vec::new();
                while let Some(row) = rows.next()? {
                    contexts.push(read_conversation_context(row)?);
                }
                Ok(contexts)
            })
            .await
    }
}

fn read_repo(row: &Row<'_>) -> Result<Repo, Fault> {
    let mut columns = Columns::new("repository", row);
    Ok(Repo {
        id: columns.id()?,
        name: columns.get()?,
        path: columns.get()?,
        created_at: columns.time()?,
    })
}

fn read_agent_context(row: &Row<'_>) -> Result<AgentContextVersion, Fault> {
    let mut columns = Columns::new("agent context", row);
    let context = AgentContext { id: columns.id()?, name: columns.get()?, version: columns.get()? };
    let created_at = columns.time()?;
    let is_configured: bool = columns.get()?;
    let spec = match is_configured {
        true => VersionSpec::Configured(String::from_utf8_lossy(&columns.bytes()?).into_owned()),
        false => VersionSpec::Refined(columns.json()?),
    };
    Ok(AgentContextVersion { context, spec, created_at })
}

fn read_conversation_context(row: &Row<'_>) -> Result<ConversationContext, Fault> {
    let mut columns = Columns::new("conversation context", row);
    Ok(ConversationContext {
        id: columns.id()?,
        name: columns.get()?,
        version: columns.get()?,
        spec: columns.json()?,
        is_configured: columns.get()?,
        created_at: columns.time()?,
    })
}
