//! What answers instructions: one module per kind of agent, all behind `AgentRuntime`.

pub mod echo;
pub mod workspace;
