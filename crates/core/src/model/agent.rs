//! Agents as sessions name them.

use super::AgentContextId;

/// A configured agent, stored so that its id is the same after every restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentContext {
    pub id: AgentContextId,
    pub name: String,
    /// Grows when the agent's settings change; a session keeps the version it started with.
    pub version: u32,
}
