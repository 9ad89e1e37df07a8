//! Agent contexts and conversation contexts.

use serde::{Deserialize, Serialize};
use skein_core::model::{self, AgentContextSpec, AgentContextVersion, ConversationSpec};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::Time;

/// An agent context to be made: a configured agent with some of its settings replaced.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateAgentContext {
    /// Unique in the org.
    pub name: String,
    /// A configured agent's name.
    #[schema(example = "echo")]
    pub agent: String,
    /// Where passages are searched.
    pub collection: Option<String>,
    pub model: Option<String>,
}

/// The next version of an agent context, whole: what is left out falls back to the configured agent.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeAgentContext {
    /// A configured agent's name.
    #[schema(example = "echo")]
    pub agent: String,
    pub collection: Option<String>,
    pub model: Option<String>,
}

/// An agent context in its newest version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentContext {
    pub id: Uuid,
    pub name: String,
    /// Grows with every change; a session keeps the version it started with.
    pub version: u32,
    /// The configured agent that answers.
    pub agent: String,
    pub collection: Option<String>,
    pub model: Option<String>,
    /// Comes from the server's configuration, and is changed there.
    pub configured: bool,
    /// When this version was made.
    pub created_at: Time,
}

/// A page of agent contexts, oldest first: the org's own and the configured ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentContextList {
    pub agent_contexts: Vec<AgentContext>,
    /// The `cursor` of the next page, if there is one.
    pub next_cursor: Option<String>,
}

/// A conversation context to be made.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateConversationContext {
    /// Unique in the org.
    pub name: String,
    pub system_prompt: String,
    pub model: Option<String>,
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
}

/// The next version of a conversation context, whole.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeConversationContext {
    pub system_prompt: String,
    pub model: Option<String>,
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
}

/// A conversation context in its newest version.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationContext {
    pub id: Uuid,
    pub name: String,
    /// Grows with every change; a session keeps the version it started with.
    pub version: u32,
    pub system_prompt: String,
    pub model: Option<String>,
    pub temperature: Option<f64>,
    /// Comes from the server's configuration, and is changed there.
    pub configured: bool,
    /// When this version was made.
    pub created_at: Time,
}

/// A page of conversation contexts, oldest first: the org's own and the configured ones.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationContextList {
    pub conversation_contexts: Vec<ConversationContext>,
    /// The `cursor` of the next page, if there is one.
    pub next_cursor: Option<String>,
}

impl From<CreateAgentContext> for (String, AgentContextSpec) {
    fn from(request: CreateAgentContext) -> Self {
        let CreateAgentContext { name, agent, collection, model } = request;
        (name, AgentContextSpec { agent, collection, model })
    }
}

impl From<ChangeAgentContext> for AgentContextSpec {
    fn from(request: ChangeAgentContext) -> Self {
        let ChangeAgentContext { agent, collection, model } = request;
        Self { agent, collection, model }
    }
}

impl From<AgentContextVersion> for AgentContext {
    fn from(version: AgentContextVersion) -> Self {
        let AgentContextVersion { context, spec, created_at } = version;
        let configured = spec.refined().is_none();
        let named =
            || AgentContextSpec { agent: context.name.clone(), collection: None, model: None };
        let spec = spec.refined().cloned().unwrap_or_else(named);
        Self {
            id: *context.id.as_uuid(),
            name: context.name,
            version: context.version,
            agent: spec.agent,
            collection: spec.collection,
            model: spec.model,
            configured,
            created_at: created_at.into(),
        }
    }
}

impl From<CreateConversationContext> for (String, ConversationSpec) {
    fn from(request: CreateConversationContext) -> Self {
        let CreateConversationContext { name, system_prompt, model, temperature } = request;
        (name, ConversationSpec { system_prompt, model, temperature })
    }
}

impl From<ChangeConversationContext> for ConversationSpec {
    fn from(request: ChangeConversationContext) -> Self {
        let ChangeConversationContext { system_prompt, model, temperature } = request;
        Self { system_prompt, model, temperature }
    }
}

impl From<model::ConversationContext> for ConversationContext {
    fn from(context: model::ConversationContext) -> Self {
        Self {
            id: *context.id.as_uuid(),
            name: context.name,
            version: context.version,
            system_prompt: context.spec.system_prompt,
            model: context.spec.model,
            temperature: context.spec.temperature,
            configured: context.is_configured,
            created_at: context.created_at.into(),
        }
    }
}
