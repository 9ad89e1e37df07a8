//! What answers instructions: one module per kind of agent, all behind `AgentRuntime`.

pub mod acp;
pub mod confine;
pub mod echo;
pub mod local;
pub mod responses;
mod tls;
pub mod workspace;

pub use tls::install_tls;
