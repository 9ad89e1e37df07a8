//! The agents that this installation can run, by name and by context id.

use std::{collections::HashMap, sync::Arc};

use crate::{
    Error,
    model::{AgentContext, AgentContextId},
    ports::AgentRuntime,
};

/// A configured agent, ready to run.
#[derive(Clone)]
pub struct Agent {
    pub context: AgentContext,
    pub runtime: Arc<dyn AgentRuntime>,
    pub model: Option<String>,
}

/// Every configured agent.
pub struct Agents {
    by_id: HashMap<AgentContextId, Agent>,
    by_name: HashMap<String, AgentContextId>,
    default: AgentContextId,
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
        Some(Self { by_id, by_name, default })
    }

    /// The agent that a request names, or the default one.
    pub fn choose(&self, choice: &AgentChoice) -> Result<&Agent, Error> {
        let (id, field, value) = match choice {
            AgentChoice::Default => (Some(self.default), "agent", String::new()),
            AgentChoice::Named(name) => (self.by_name.get(name).copied(), "agent", name.clone()),
            AgentChoice::Context(id) => (Some(*id), "agentContextId", id.to_string()),
        };
        id.and_then(|id| self.by_id.get(&id)).ok_or(Error::UnknownReference { field, value })
    }

    /// The agent that a session runs on, unless it was removed from the configuration since.
    pub fn find(&self, context: AgentContextId) -> Option<&Agent> {
        self.by_id.get(&context)
    }

    pub fn list(&self) -> impl Iterator<Item = &Agent> {
        self.by_id.values()
    }
}
