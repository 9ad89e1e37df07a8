//! The agents that this installation can run, by name and by context id.

use std::{collections::HashMap, sync::Arc};

use crate::{
    Error,
    model::{AgentContext, AgentContextId, AgentContextVersion, Binding, Scope},
    platform::Platform,
    ports::AgentRuntime,
};

/// An agent context with what runs it: a configured agent, or one that refines it.
#[derive(Clone)]
pub struct Agent {
    pub context: AgentContext,
    pub runtime: Arc<dyn AgentRuntime>,
    pub model: Option<String>,
    /// Where its passages are looked for, when not everywhere.
    pub collection: Option<String>,
}

/// Every configured agent.
pub struct Agents {
    by_id: HashMap<AgentContextId, Agent>,
    by_name: HashMap<String, AgentContextId>,
    default: AgentContextId,
    /// Who works in a repository when a request names one but no agent.
    for_repositories: Option<AgentContextId>,
}

/// How a request names an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AgentChoice {
    #[default]
    Default,
    Named(String),
    Context(AgentContextId),
}

impl Agents {
    /// `default` answers when a request names none. `None` when there is no agent of that name.
    pub fn new(agents: Vec<Agent>, default: &str) -> Option<Self> {
        let by_name: HashMap<_, _> =
            agents.iter().map(|agent| (agent.context.name.clone(), agent.context.id)).collect();
        let default = *by_name.get(default)?;
        let by_id = agents.into_iter().map(|agent| (agent.context.id, agent)).collect();
        Some(Self { by_id, by_name, default, for_repositories: None })
    }

    /// This agent works in repositories when a request names no agent.
    pub fn with_repositories_by(self, name: Option<&str>) -> Self {
        let for_repositories = name.and_then(|name| self.by_name.get(name).copied());
        Self { for_repositories, ..self }
    }

    /// Who works in a repository when a request names no agent.
    pub fn for_repositories(&self) -> Option<&Agent> {
        self.by_id.get(&self.for_repositories?)
    }

    /// A configured agent by its name.
    pub fn named(&self, name: &str) -> Option<&Agent> {
        self.by_id.get(self.by_name.get(name)?)
    }

    /// The agent that a request names, or the default one, as its session will be bound to it.
    pub async fn resolve(
        &self,
        platform: &Platform,
        scope: &Scope,
        choice: &AgentChoice,
    ) -> Result<Agent, Error> {
        let configured = match choice {
            AgentChoice::Default => self.by_id.get(&self.default),
            AgentChoice::Named(name) => self.named(name),
            AgentChoice::Context(id) => self.by_id.get(id),
        };
        if let Some(agent) = configured {
            return Ok(agent.clone());
        }
        let unknown = |field, value| Error::UnknownReference { field, value };
        let AgentChoice::Context(id) = choice else {
            let AgentChoice::Named(name) = choice else {
                return Err(unknown("agent", String::new()));
            };
            return Err(unknown("agent", name.clone()));
        };
        let stored = platform.store.find_agent_context(scope, *id, None).await?;
        let resolved = stored.and_then(|version| self.refine(version));
        resolved.ok_or_else(|| unknown("agentContextId", id.to_string()))
    }

    /// What a session runs on: the version it is bound to. `None` when its agent is no longer configured.
    pub async fn resolve_bound(
        &self,
        platform: &Platform,
        scope: &Scope,
        binding: &Binding,
    ) -> Result<Option<Agent>, Error> {
        if let Some(agent) = self.by_id.get(&binding.agent_context) {
            return Ok(Some(agent.clone()));
        }
        let version = Some(binding.agent_context_version);
        let stored =
            platform.store.find_agent_context(scope, binding.agent_context, version).await?;
        Ok(stored.and_then(|version| self.refine(version)))
    }

    /// A context made over the API runs on a configured agent, with some of its settings replaced.
    fn refine(&self, version: AgentContextVersion) -> Option<Agent> {
        let spec = version.spec?;
        let agent = self.named(&spec.agent)?;
        Some(Agent {
            context: version.context,
            runtime: Arc::clone(&agent.runtime),
            model: spec.model.or_else(|| agent.model.clone()),
            collection: spec.collection.or_else(|| agent.collection.clone()),
        })
    }

    pub fn list(&self) -> impl Iterator<Item = &Agent> {
        self.by_id.values()
    }
}
