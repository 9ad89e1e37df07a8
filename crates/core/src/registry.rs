//! The use cases of repositories, agent contexts and conversation contexts.

use std::sync::{Arc, atomic::Ordering};

use serde_json::{Value, json};
use tracing::{instrument, warn};

use crate::{
    Error,
    agents::Agents,
    model::{
        AgentContext, AgentContextId, AgentContextSpec, AgentContextVersion, ConversationContext,
        ConversationContextId, ConversationSpec, Repo, RepoId, Scope, VersionSpec,
    },
    platform::{Created, IdempotencyKey, Limits, Platform, RACE_ATTEMPTS},
    policy::{
        access,
        text::{check_filled, check_model, check_optional, check_text},
    },
    ports::{
        AuditEntry, ChangeSet, Conflict, Resource, ResourceKind, StoreError, WorkspaceError, Write,
    },
};

/// A system prompt longer than this is a document, not a prompt.
const MAX_SYSTEM_PROMPT_BYTES: usize = 256 * 1024;

/// Registers what sessions can be bound to.
#[derive(Clone)]
pub struct Registry {
    platform: Arc<Platform>,
    agents: Arc<Agents>,
}

impl Registry {
    pub fn new(platform: Arc<Platform>, agents: Arc<Agents>) -> Self {
        Self { platform, agents }
    }

    /// Registers a Git work tree under the workspace root.
    #[instrument(skip_all)]
    pub async fn create_repo(
        &self,
        scope: &Scope,
        (name, path): (String, String),
        key: Option<&IdempotencyKey>,
    ) -> Result<Created<Repo>, Error> {
        access::check_administer(scope, "registering a repository")?;
        check_name(&self.platform.limits, &name)?;
        check_text("path", &path, self.platform.limits.field_bytes)?;
        let replay = self.platform.find_replay(scope, key).await?;
        if let Some(resource) = replay {
            let value = self.repo(scope, RepoId::from_uuid(resource.id)).await?;
            return Ok(Created { value, replayed: true });
        }
        let path = check_work_tree(&self.platform, scope, &path).await?;
        let id = self.platform.new_id();
        let repo = Repo { id: RepoId::from_uuid(id), name, path, created_at: self.platform.now() };
        let detail = json!({"name": repo.name, "path": repo.path});
        let registration = Registration {
            write: Write::CreateRepo(repo.clone()),
            resource: Resource { kind: ResourceKind::Repo, id },
            action: "repo.created",
            detail,
            taken: ("repository", repo.name.clone()),
        };
        match self.register(scope, registration, key).await? {
            None => Ok(Created { value: repo, replayed: false }),
            Some(resource) => {
                let value = self.repo(scope, RepoId::from_uuid(resource.id)).await?;
                Ok(Created { value, replayed: true })
            }
        }
    }

    pub async fn repo(&self, scope: &Scope, repo: RepoId) -> Result<Repo, Error> {
        access::check_not_bound(scope, "reading repositories")?;
        let found = self.platform.store.find_repo(scope, repo).await?;
        found.ok_or(Error::NotFound { entity: "repository" })
    }

    pub async fn list_repos(
        &self,
        scope: &Scope,
        after: Option<RepoId>,
        limit: u32,
    ) -> Result<Vec<Repo>, Error> {
        access::check_not_bound(scope, "reading repositories")?;
        Ok(self.platform.store.list_repos(scope, after, limit).await?)
    }

    /// Makes an agent context that refines a configured agent.
    #[instrument(skip_all)]
    pub async fn create_agent_context(
        &self,
        scope: &Scope,
        (name, spec): (String, AgentContextSpec),
        key: Option<&IdempotencyKey>,
    ) -> Result<Created<AgentContextVersion>, Error> {
        access::check_administer(scope, "making an agent context")?;
        check_name(&self.platform.limits, &name)?;
        self.check_agent_spec(&spec)?;
        let id = self.platform.new_id();
        let context = AgentContext { id: AgentContextId::from_uuid(id), name, version: 1 };
        let created_at = self.platform.now();
        let spec = VersionSpec::Refined(spec);
        let version = AgentContextVersion { context, spec, created_at };
        let name = version.context.name.clone();
        let registration = Registration {
            write: Write::PutAgentContext(Box::new(version.clone())),
            resource: Resource { kind: ResourceKind::AgentContext, id },
            action: "agent_context.created",
            detail: json!({"name": name}),
            taken: ("agent context", name),
        };
        match self.register(scope, registration, key).await? {
            None => Ok(Created { value: version, replayed: false }),
            Some(resource) => {
                let id = AgentContextId::from_uuid(resource.id);
                Ok(Created { value: self.agent_context(scope, id).await?, replayed: true })
            }
        }
    }

    /// Adds a version. Sessions go on with the one they started with.
    #[instrument(skip_all)]
    pub async fn change_agent_context(
        &self,
        scope: &Scope,
        id: AgentContextId,
        spec: AgentContextSpec,
    ) -> Result<AgentContextVersion, Error> {
        access::check_administer(scope, "changing an agent context")?;
        self.check_agent_spec(&spec)?;
        for _ in 0..RACE_ATTEMPTS {
            let current = self.agent_context(scope, id).await?;
            if current.spec.refined().is_none() {
                return Err(Error::Forbidden { action: "changing a configured agent" });
            }
            let version = current.context.version + 1;
            let context = AgentContext { version, ..current.context };
            let created_at = self.platform.now();
            let spec = VersionSpec::Refined(spec.clone());
            let next = AgentContextVersion { context, spec, created_at };
            let write = Write::PutAgentContext(Box::new(next.clone()));
            let target = format!("{}/{id}", ResourceKind::AgentContext);
            let entry = ("agent_context.changed", target, json!({"version": version}));
            if let Added::Mine = self.add_version(scope, write, entry).await? {
                return Ok(next);
            }
        }
        Err(Error::AlreadyExists { entity: "agent context version", name: id.to_string() })
    }

    pub async fn agent_context(
        &self,
        scope: &Scope,
        id: AgentContextId,
    ) -> Result<AgentContextVersion, Error> {
        access::check_not_bound(scope, "reading agent contexts")?;
        let found = self.platform.store.find_agent_context(scope, id, None).await?;
        found.ok_or(Error::NotFound { entity: "agent context" })
    }

    pub async fn list_agent_contexts(
        &self,
        scope: &Scope,
        after: Option<AgentContextId>,
        limit: u32,
    ) -> Result<Vec<AgentContextVersion>, Error> {
        access::check_not_bound(scope, "reading agent contexts")?;
        Ok(self.platform.store.list_agent_contexts(scope, after, limit).await?)
    }

    #[instrument(skip_all)]
    pub async fn create_conversation_context(
        &self,
        scope: &Scope,
        (name, spec): (String, ConversationSpec),
        key: Option<&IdempotencyKey>,
    ) -> Result<Created<ConversationContext>, Error> {
        access::check_administer(scope, "making a conversation context")?;
        check_conversation_context(&self.platform.limits, &name, &spec)?;
        let uuid = self.platform.new_id();
        let id = ConversationContextId::from_uuid(uuid);
        let created_at = self.platform.now();
        let context =
            ConversationContext { id, name, version: 1, spec, is_configured: false, created_at };
        let registration = Registration {
            write: Write::PutConversationContext(Box::new(context.clone())),
            resource: Resource { kind: ResourceKind::ConversationContext, id: uuid },
            action: "conversation_context.created",
            detail: json!({"name": context.name}),
            taken: ("conversation context", context.name.clone()),
        };
        match self.register(scope, registration, key).await? {
            None => Ok(Created { value: context, replayed: false }),
            Some(resource) => {
                let id = ConversationContextId::from_uuid(resource.id);
                Ok(Created { value: self.conversation_context(scope, id).await?, replayed: true })
            }
        }
    }

    /// Adds a version. Sessions go on with the one they started with.
    #[instrument(skip_all)]
    pub async fn change_conversation_context(
        &self,
        scope: &Scope,
        id: ConversationContextId,
        spec: ConversationSpec,
    ) -> Result<ConversationContext, Error> {
        access::check_administer(scope, "changing a conversation context")?;
        check_conversation_spec(&self.platform.limits, &spec)?;
        for _ in 0..RACE_ATTEMPTS {
            let current = self.conversation_context(scope, id).await?;
            if current.is_configured {
                return Err(Error::Forbidden {
                    action: "changing a configured conversation context",
                });
            }
            let (version, created_at) = (current.version + 1, self.platform.now());
            let next = ConversationContext { version, spec: spec.clone(), created_at, ..current };
            let write = Write::PutConversationContext(Box::new(next.clone()));
            let target = format!("{}/{id}", ResourceKind::ConversationContext);
            let entry = ("conversation_context.changed", target, json!({"version": version}));
            if let Added::Mine = self.add_version(scope, write, entry).await? {
                return Ok(next);
            }
        }
        Err(Error::AlreadyExists { entity: "conversation context version", name: id.to_string() })
    }

    pub async fn conversation_context(
        &self,
        scope: &Scope,
        id: ConversationContextId,
    ) -> Result<ConversationContext, Error> {
        access::check_not_bound(scope, "reading conversation contexts")?;
        let found = self.platform.store.find_conversation_context(scope, id, None).await?;
        found.ok_or(Error::NotFound { entity: "conversation context" })
    }

    pub async fn list_conversation_contexts(
        &self,
        scope: &Scope,
        after: Option<ConversationContextId>,
        limit: u32,
    ) -> Result<Vec<ConversationContext>, Error> {
        access::check_not_bound(scope, "reading conversation contexts")?;
        Ok(self.platform.store.list_conversation_contexts(scope, after, limit).await?)
    }

    /// Commits a creation once per idempotency key. `Some` names what an earlier request made.
    async fn register(
        &self,
        scope: &Scope,
        registration: Registration,
        key: Option<&IdempotencyKey>,
    ) -> Result<Option<Resource>, Error> {
        let Registration { write, resource, action, detail, taken } = registration;
        for _ in 0..RACE_ATTEMPTS {
            if let Some(seen) = self.platform.find_replay(scope, key).await? {
                return Ok(Some(seen));
            }
            let target = format!("{}/{}", resource.kind, resource.id);
            let at = self.platform.now();
            let changes = ChangeSet {
                writes: vec![write.clone()],
                audit: vec![AuditEntry { at, action, target, detail: detail.clone() }],
                idempotency: self.platform.idempotency_record(key, resource),
                ..ChangeSet::default()
            };
            match self.platform.commit(scope, changes).await {
                Ok(_) => return Ok(None),
                Err(error) if error.is_lost_race() => {}
                Err(Error::Store(StoreError::Conflict(Conflict::AlreadyExists(_)))) => {
                    return Err(Error::AlreadyExists { entity: taken.0, name: taken.1 });
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::AlreadyExists { entity: taken.0, name: taken.1 })
    }

    async fn add_version(
        &self,
        scope: &Scope,
        write: Write,
        (action, target, detail): (&'static str, String, Value),
    ) -> Result<Added, Error> {
        let at = self.platform.now();
        let audit = vec![AuditEntry { at, action, target, detail }];
        let changes = ChangeSet { writes: vec![write], audit, ..ChangeSet::default() };
        match self.platform.commit(scope, changes).await {
            Ok(_) => Ok(Added::Mine),
            Err(Error::Store(StoreError::Conflict(Conflict::AlreadyExists(_)))) => {
                Ok(Added::AnotherFirst)
            }
            Err(error) => Err(error),
        }
    }

    fn check_agent_spec(&self, spec: &AgentContextSpec) -> Result<(), Error> {
        let max = self.platform.limits.field_bytes;
        check_optional("collection", spec.collection.as_deref(), max)?;
        check_model(spec.model.as_deref(), max)?;
        match self.agents.named(&spec.agent) {
            Some(_) => Ok(()),
            None => Err(Error::UnknownReference { field: "agent", value: spec.agent.clone() }),
        }
    }
}

/// Whether there can be such a conversation context, over the API or in the configuration.
pub fn check_conversation_context(
    limits: &Limits,
    name: &str,
    spec: &ConversationSpec,
) -> Result<(), Error> {
    check_name(limits, name)?;
    check_conversation_spec(limits, spec)
}

fn check_name(limits: &Limits, name: &str) -> Result<(), Error> {
    check_filled("name", name, limits.field_bytes)
}

fn check_conversation_spec(limits: &Limits, spec: &ConversationSpec) -> Result<(), Error> {
    check_text("systemPrompt", &spec.system_prompt, MAX_SYSTEM_PROMPT_BYTES)?;
    check_model(spec.model.as_deref(), limits.field_bytes)?;
    if spec.temperature.is_some_and(|value| !(0.0..=2.0).contains(&value)) {
        let reason = "must be between 0 and 2".to_owned();
        return Err(Error::Invalid { field: "temperature", reason });
    }
    Ok(())
}

/// The real path of a work tree that agents may work in. Attempts to leave the workspace are kept on record.
pub(crate) async fn check_work_tree(
    platform: &Platform,
    scope: &Scope,
    path: &str,
) -> Result<String, Error> {
    let error = match platform.workspaces.resolve(scope.org, path).await {
        Ok(resolved) => return Ok(resolved),
        Err(error) => error,
    };
    let path: String = path.chars().take(256).collect();
    match error {
        WorkspaceError::NoRoot => Err(Error::NoWorkspaceRoot),
        WorkspaceError::NotARepository | WorkspaceError::Unreadable(_) => {
            Err(Error::NotARepository { path })
        }
        WorkspaceError::Outside => refuse_escape(platform, scope, path).await,
    }
}

/// As [`check_work_tree`] for one that was registered: what was inside then may have been replaced by a link since.
pub(crate) async fn check_registered(
    platform: &Platform,
    scope: &Scope,
    registered: &str,
) -> Result<String, Error> {
    let real = check_work_tree(platform, scope, registered).await?;
    if real == registered {
        return Ok(real);
    }
    refuse_escape(platform, scope, registered.chars().take(256).collect()).await
}

/// Refused, counted and on record.
async fn refuse_escape(platform: &Platform, scope: &Scope, path: String) -> Result<String, Error> {
    warn!(path, "a repository path leads out of the workspace");
    platform.path_escapes.fetch_add(1, Ordering::Relaxed);
    let at = platform.now();
    let (action, target) = ("security.path_escape", "repo".to_owned());
    let detail = json!({"path": path});
    let audit = vec![AuditEntry { at, action, target, detail }];
    platform.commit(scope, ChangeSet { audit, ..ChangeSet::default() }).await?;
    Err(Error::PathOutsideWorkspace { path })
}

/// Whose version it is that has the next number.
enum Added {
    Mine,
    AnotherFirst,
}

/// One thing to be registered, with what is said when its name is taken.
struct Registration {
    write: Write,
    resource: Resource,
    action: &'static str,
    detail: Value,
    taken: (&'static str, String),
}
