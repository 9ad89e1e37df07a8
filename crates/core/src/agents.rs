//! The agents that this installation can run, by name and by context id.

use std::{collections::HashMap, sync::Arc};

use crate::{
    Error,
    model::{
        AgentContext, AgentContextId, AgentContextSpec, AgentContextVersion, Binding, Scope,
        VersionSpec,
    },
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

/// Reads what the configuration wrote down of its agents before it was changed.
pub trait FormerAgents: Send + Sync {
    /// The agent as that version has it, with the keys, addresses and commands of `today`. `None` when it cannot be run
    /// like that any more.
    fn recall(&self, today: &Agent, spec: &str) -> Option<Agent>;
}

/// Every configured agent.
pub struct Agents {
    by_id: HashMap<AgentContextId, Agent>,
    by_name: HashMap<String, AgentContextId>,
    default: AgentContextId,
    /// Who works in a repository when a request names one but no agent.
    for_repositories: Option<AgentContextId>,
    former: Option<Box<dyn FormerAgents>>,
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
        Some(Self { by_id, by_name, default, for_repositories: None, former: None })
    }

    /// This agent works in repositories when a request names no agent.
    pub fn with_repositories_by(self, name: Option<&str>) -> Self {
        let for_repositories = name.and_then(|name| self.by_name.get(name).copied());
        Self { for_repositories, ..self }
    }

    /// Sessions that started with another version of their agent go on with what this makes of it.
    pub fn with_former(self, former: Box<dyn FormerAgents>) -> Self {
        Self { former: Some(former), ..self }
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
        let resolved = stored.and_then(|version| self.bring_back(version));
        resolved.ok_or_else(|| unknown("agentContextId", id.to_string()))
    }

    /// What a session runs on: the version it is bound to. `None` when its agent is no longer configured, or cannot be
    /// run as it was.
    pub async fn resolve_bound(
        &self,
        platform: &Platform,
        scope: &Scope,
        binding: &Binding,
    ) -> Result<Option<Agent>, Error> {
        let (id, version) = (binding.agent_context, binding.agent_context_version);
        // Most sessions are bound to what is configured now, and that is at hand.
        if let Some(agent) = self.by_id.get(&id).filter(|agent| agent.context.version == version) {
            return Ok(Some(agent.clone()));
        }
        let stored = platform.store.find_agent_context(scope, id, Some(version)).await?;
        Ok(stored.and_then(|version| self.bring_back(version)))
    }

    fn bring_back(&self, version: AgentContextVersion) -> Option<Agent> {
        let AgentContextVersion { context, spec, .. } = version;
        match spec {
            VersionSpec::Refined(spec) => self.refine(context, spec),
            VersionSpec::Configured(spec) => {
                let today = self.by_id.get(&context.id)?;
                let recalled = self.former.as_ref()?.recall(today, &spec)?;
                Some(Agent { context, ..recalled })
            }
        }
    }

    /// A context made over the API runs on a configured agent, with some of its settings replaced.
    fn refine(&self, context: AgentContext, spec: AgentContextSpec) -> Option<Agent> {
        let agent = self.named(&spec.agent)?;
        Some(Agent {
            context,
            runtime: Arc::clone(&agent.runtime),
            model: spec.model.or_else(|| agent.model.clone()),
            collection: spec.collection.or_else(|| agent.collection.clone()),
        })
    }

    pub fn list(&self) -> impl Iterator<Item = &Agent> {
        self.by_id.values()
    }
}
