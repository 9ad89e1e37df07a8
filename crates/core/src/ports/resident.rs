//! Agents that live in a process of their own for as long as their session works.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{future::BoxFuture, stream::BoxStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{AgentUpdate, RunRequest, RuntimeFailure};
use crate::{
    model::{OrgId, SessionId, UserId},
    policy::permission::PermissionPolicy,
};

/// Starts agents that stay.
///
/// Durability duties: none. The caller keeps the provider's session id before it gives the first prompt.
#[async_trait]
pub trait ResidentRuntime: Send + Sync {
    /// Starts the agent and opens its session, or takes up the one it had. Fails when told to stop, and whenever it
    /// fails, nothing that it has started is left. Dropping the future ends the process later.
    async fn start(&self, start: StartAgent) -> Result<Arc<dyn ResidentAgent>, RuntimeFailure>;

    /// What the operator allows this agent in a repository.
    fn permissions(&self, repository: &str) -> PermissionPolicy;

    /// How long a question may stay without an answer; `None` waits as long as the turn may take.
    fn permission_timeout(&self) -> Option<std::time::Duration>;

    /// Removes what was kept for a session that has ended for good. Its process is gone.
    async fn discard(&self, session: SessionId);
}

/// What an agent is started with.
#[derive(Debug, Clone)]
pub struct StartAgent {
    pub session: SessionId,
    pub org: OrgId,
    pub owner: UserId,
    /// The real path of the repository's work tree.
    pub workspace: String,
    /// The session to take up, as the agent named it.
    pub provider_session_id: Option<String>,
    /// Fires when the agent is not wanted any more.
    pub stop: CancellationToken,
}

/// A running agent.
pub trait ResidentAgent: Send + Sync {
    /// The agent's own name of the session, to take it up in another process.
    fn provider_session_id(&self) -> &str;

    /// What confinement could not be had, one sentence each.
    fn shortcomings(&self) -> &[String];

    /// When it last sent an update, whether a prompt of ours was open or not.
    fn last_heard_at(&self) -> Instant;

    /// Runs one instruction. Dropping the stream calls it off at the agent; one that does not listen is ended.
    fn prompt(&self, request: RunRequest) -> BoxStream<'static, AgentUpdate>;

    /// Answers a question; `None` calls it off. Unknown or answered questions are left alone.
    fn answer(&self, request_id: &str, option_id: Option<String>);

    /// Resolves when the process is gone, with what is known of why.
    fn ended(&self) -> BoxFuture<'static, RuntimeFailure>;

    /// Ends the process and all its descendants, politely first. Resolves when they are gone.
    fn end(&self) -> BoxFuture<'static, ()>;
}
