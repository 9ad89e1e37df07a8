//! What sessions can be bound to: repositories, agent contexts and conversation contexts.

use serde::{Deserialize, Serialize};

use super::{AgentContextId, ConversationContextId, RepoId, Timestamp};

/// A registered Git work tree under the workspace root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repo {
    pub id: RepoId,
    /// Unique in its org.
    pub name: String,
    /// Absolute, without links, as it was when it was checked.
    pub path: String,
    pub created_at: Timestamp,
}

/// Which runtime, provider, model environment and vector collection answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentContext {
    pub id: AgentContextId,
    /// Unique in its org, or in the instance for configured agents.
    pub name: String,
    /// Grows with every change; a session keeps the version it started with.
    pub version: u32,
}

/// What an agent context that was made over the API says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentContextSpec {
    /// A configured agent.
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A version of an agent context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentContextVersion {
    pub context: AgentContext,
    pub spec: VersionSpec,
    pub created_at: Timestamp,
}

/// What a version of an agent context says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionSpec {
    /// Made over the API.
    Refined(AgentContextSpec),
    /// In the words of the configuration, which alone can read them.
    Configured(String),
}

impl VersionSpec {
    pub fn refined(&self) -> Option<&AgentContextSpec> {
        match self {
            Self::Refined(spec) => Some(spec),
            Self::Configured(_) => None,
        }
    }
}

/// System prompt, model and temperature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationSpec {
    pub system_prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
}

/// A version of a conversation context.
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationContext {
    pub id: ConversationContextId,
    /// Unique in its org among those of its origin.
    pub name: String,
    /// Grows with every change; a session keeps the version it started with.
    pub version: u32,
    pub spec: ConversationSpec,
    /// Comes from the configuration, and is changed there.
    pub is_configured: bool,
    pub created_at: Timestamp,
}
