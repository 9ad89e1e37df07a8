//! Repositories and contexts: what sessions can be bound to.

use async_trait::async_trait;
use skein_core::{
    model::{
        AgentContext, AgentContextId, AgentContextVersion, ConversationContext,
        ConversationContextId, Repo, RepoId, Scope, VersionSpec,
    },
    ports::{RegistryReads, StoreError},
};
use tokio_postgres::Row;

use super::super::{
    PostgresStore,
    connection::Query,
    error::Fault,
    rows::{Columns, first_or, small},
};

/// An agent context in one version; configured ones have no org.
macro_rules! select_agent_contexts {
    ($version:literal, $contexts:literal, $rest:literal) => {
        concat!(
            "SELECT c.id, c.name, v.version, v.created_at, c.org_id IS NULL AS is_configured, v.spec
             FROM ", $contexts, " c
             JOIN agent_context_versions v ON v.context_id = c.id AND v.version = ", $version, $rest
        )
    };
}

const FIND_AGENT_CONTEXT: &str = select_agent_contexts!(
    "coalesce($3, c.current_version)",
    "agent_contexts",
    " WHERE c.id = $2 AND (c.org_id = $1 OR c.org_id IS NULL)"
);

/// Two walks in the order of ids, merged, so that no other org's contexts are passed on the way.
const LIST_AGENT_CONTEXTS: &str = select_agent_contexts!(
    "c.current_version",
    "((SELECT * FROM agent_contexts WHERE org_id = $1 AND id > $2 ORDER BY id LIMIT $3)
      UNION ALL
      (SELECT * FROM agent_contexts WHERE org_id IS NULL AND id > $2 ORDER BY id LIMIT $3))",
    " ORDER BY c.id LIMIT $3"
);

/// A conversation context in one version.
macro_rules! select_conversation_contexts {
    ($version:literal, $rest:literal) => {
        concat!(
            "SELECT c.id, c.name, v.version, v.spec, c.origin = 'config' AS is_configured, v.created_at
             FROM conversation_contexts c
             JOIN conversation_context_versions v
               ON v.org_id = c.org_id AND v.context_id = c.id AND v.version = ",
            $version,
            " WHERE c.org_id = $1 ",
            $rest
        )
    };
}

const FIND_CONVERSATION_CONTEXT: &str = select_conversation_contexts!(
    "coalesce($3, c.current_version)",
    "AND c.id = $2 AND ($3::integer IS NOT NULL OR c.retired_at IS NULL)"
);

const LIST_CONVERSATION_CONTEXTS: &str = select_conversation_contexts!(
    "c.current_version",
    "AND c.id > $2 AND c.retired_at IS NULL ORDER BY c.id LIMIT $3"
);

#[async_trait]
impl RegistryReads for PostgresStore {
    async fn find_repo(&self, scope: &Scope, id: RepoId) -> Result<Option<Repo>, StoreError> {
        let sql = "SELECT id, name, path, created_at FROM repos WHERE org_id = $1 AND id = $2";
        self.find(scope, (sql, &[scope.org.as_uuid(), id.as_uuid()]), repo).await
    }

    async fn find_repo_named(&self, scope: &Scope, name: &str) -> Result<Option<Repo>, StoreError> {
        let sql = "SELECT id, name, path, created_at FROM repos WHERE org_id = $1 AND name = $2";
        self.find(scope, (sql, &[scope.org.as_uuid(), &name]), repo).await
    }

    async fn list_repos(
        &self,
        scope: &Scope,
        after: Option<RepoId>,
        limit: u32,
    ) -> Result<Vec<Repo>, StoreError> {
        let sql = "SELECT id, name, path, created_at FROM repos
                   WHERE org_id = $1 AND id > $2 ORDER BY id LIMIT $3";
        let after = first_or(after.as_ref().map(RepoId::as_uuid));
        self.list(scope, (sql, &[scope.org.as_uuid(), &after, &i64::from(limit)]), repo).await
    }

    async fn find_agent_context(
        &self,
        scope: &Scope,
        context: AgentContextId,
        version: Option<u32>,
    ) -> Result<Option<AgentContextVersion>, StoreError> {
        let version = version.map(small);
        let query: Query<'_> =
            (FIND_AGENT_CONTEXT, &[scope.org.as_uuid(), context.as_uuid(), &version]);
        self.find(scope, query, agent_context).await
    }

    async fn list_agent_contexts(
        &self,
        scope: &Scope,
        after: Option<AgentContextId>,
        limit: u32,
    ) -> Result<Vec<AgentContextVersion>, StoreError> {
        let after = first_or(after.as_ref().map(AgentContextId::as_uuid));
        let query: Query<'_> =
            (LIST_AGENT_CONTEXTS, &[scope.org.as_uuid(), &after, &i64::from(limit)]);
        self.list(scope, query, agent_context).await
    }

    async fn find_conversation_context(
        &self,
        scope: &Scope,
        context: ConversationContextId,
        version: Option<u32>,
    ) -> Result<Option<ConversationContext>, StoreError> {
        let version = version.map(small);
        let query: Query<'_> =
            (FIND_CONVERSATION_CONTEXT, &[scope.org.as_uuid(), context.as_uuid(), &version]);
        self.find(scope, query, conversation_context).await
    }

    async fn list_conversation_contexts(
        &self,
        scope: &Scope,
        after: Option<ConversationContextId>,
        limit: u32,
    ) -> Result<Vec<ConversationContext>, StoreError> {
        let after = first_or(after.as_ref().map(ConversationContextId::as_uuid));
        let query: Query<'_> =
            (LIST_CONVERSATION_CONTEXTS, &[scope.org.as_uuid(), &after, &i64::from(limit)]);
        self.list(scope, query, conversation_context).await
    }
}

fn repo(row: &Row) -> Result<Repo, Fault> {
    let row = Columns::new("repository", row);
    Ok(Repo {
        id: row.id("id", RepoId::from_uuid)?,
        name: row.get("name")?,
        path: row.get("path")?,
        created_at: row.time("created_at")?,
    })
}

fn agent_context(row: &Row) -> Result<AgentContextVersion, Fault> {
    let row = Columns::new("agent context", row);
    let context = AgentContext {
        id: row.id("id", AgentContextId::from_uuid)?,
        name: row.get("name")?,
        version: row.small("version")?,
    };
    let is_configured: bool = row.get("is_configured")?;
    let spec = match is_configured {
        true => VersionSpec::Configured(String::from_utf8_lossy(&row.bytes("spec")?).into_owned()),
        false => VersionSpec::Refined(row.json("spec")?),
    };
    Ok(AgentContextVersion { context, spec, created_at: row.time("created_at")? })
}

fn conversation_context(row: &Row) -> Result<ConversationContext, Fault> {
    let columns = Columns::new("conversation context", row);
    Ok(ConversationContext {
        id: columns.id("id", ConversationContextId::from_uuid)?,
        name: columns.get("name")?,
        version: columns.small("version")?,
        spec: columns.json("spec")?,
        is_configured: columns.get("is_configured")?,
        created_at: columns.time("created_at")?,
    })
}
