//! Versions of configured agents: what is written down of one, and what becomes of it when the settings have changed.

use std::{collections::HashMap, sync::Arc};

use serde::Deserialize;
use skein_core::{
    agents::{Agent, FormerAgents},
    ports::AgentRuntime,
};

use crate::config::{AgentSettings, Runtime};

/// What makes another version of an agent. Environments stay out of it: they are secrets.
pub(crate) fn spec(name: &str, agent: &AgentSettings) -> String {
    let shown =
        AgentSettings { env: Default::default(), runtime: agent.runtime_of(name), ..agent.clone() };
    serde_json::to_string(&shown).unwrap_or_default()
}

/// What a session keeps of the version it started with. Everything else, such as commands and permissions, is for
/// today's settings to say.
#[derive(Debug, Deserialize)]
struct Kept {
    runtime: Option<Runtime>,
    provider: Option<String>,
    model: Option<String>,
    collection: Option<String>,
}

/// What runs the agents of today, for those of yesterday.
#[derive(Default)]
pub(crate) struct FormerVersions {
    runtimes: HashMap<String, Option<Runtime>>,
    providers: HashMap<String, Arc<dyn AgentRuntime>>,
}

impl FormerVersions {
    pub(crate) fn note(
        &mut self,
        name: &str,
        agent: &AgentSettings,
        runtime: &Arc<dyn AgentRuntime>,
    ) {
        let kind = agent.runtime_of(name);
        self.runtimes.insert(name.to_owned(), kind);
        if let (Some(Runtime::Responses), Some(provider)) = (kind, &agent.provider) {
            self.note_provider(provider, Arc::clone(runtime));
        }
    }

    pub(crate) fn has_provider(&self, name: &str) -> bool {
        self.providers.contains_key(name)
    }

    /// A provider that no agent of today asks may have been asked before.
    pub(crate) fn note_provider(&mut self, name: &str, runtime: Arc<dyn AgentRuntime>) {
        self.providers.insert(name.to_owned(), runtime);
    }
}

impl FormerAgents for FormerVersions {
    fn recall(&self, today: &Agent, spec: &str) -> Option<Agent> {
        let kept: Kept = serde_json::from_str(spec).ok()?;
        let runtime = match kept.runtime {
            Some(Runtime::Responses) => self.providers.get(&kept.provider?)?,
            kind if self.runtimes.get(&today.context.name) == Some(&kind) => &today.runtime,
            Some(Runtime::Acp | Runtime::Echo | Runtime::Local) | None => return None,
        };
        Some(Agent {
            context: today.context.clone(),
            runtime: Arc::clone(runtime),
            model: kept.model,
            collection: kept.collection,
        })
    }
}

#[cfg(test)]
mod tests {
    use skein_core::model::{AgentContext, AgentContextId};
    use skein_runtimes::{
        echo::{Echo, EchoSettings},
        local::Local,
    };
    use uuid::Uuid;

    use super::*;

    fn settings(runtime: Runtime, provider: Option<&str>, model: &str) -> AgentSettings {
        AgentSettings {
            runtime: Some(runtime),
            provider: provider.map(str::to_owned),
            model: Some(model.to_owned()),
            collection: Some(format!("passages of {model}")),
            command: vec!["agent".to_owned(), model.to_owned()],
            ..AgentSettings::default()
        }
    }

    #[test]
    fn a_version_keeps_runtime_provider_model_and_collection_and_nothing_is_made_up() {
        let context = AgentContext {
            id: AgentContextId::from_uuid(Uuid::nil()),
            name: "a".into(),
            version: 2,
        };
        // They only have to be told apart.
        let (here, there): (Arc<dyn AgentRuntime>, Arc<dyn AgentRuntime>) =
            (Arc::new(Local), Arc::new(Echo::new(EchoSettings::default())));
        let today = Agent { context, runtime: Arc::clone(&here), model: None, collection: None };
        let mut former = FormerVersions::default();
        former.note("a", &settings(Runtime::Acp, None, "new"), &here);
        former.note("b", &settings(Runtime::Responses, Some("there"), "other"), &there);
        let recall = |settings: AgentSettings| {
            let agent = former.recall(&today, &spec("a", &settings))?;
            Some((Arc::ptr_eq(&agent.runtime, &here), agent.model?, agent.collection?))
        };

        let same_runtime = recall(settings(Runtime::Acp, None, "old"));
        let asked_a_provider = recall(settings(Runtime::Responses, Some("there"), "old"));
        let provider_gone = recall(settings(Runtime::Responses, Some("nowhere"), "old"));
        let runtime_gone = recall(settings(Runtime::Echo, None, "old"));

        let kept = |is_here| Some((is_here, "old".to_owned(), "passages of old".to_owned()));
        assert_eq!(same_runtime, kept(true));
        assert_eq!(asked_a_provider, kept(false));
        assert_eq!((provider_gone, runtime_gone), (None, None));
        assert!(former.recall(&today, "not JSON").is_none());
    }
}
