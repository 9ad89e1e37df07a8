//! Coding agents over the Agent Client Protocol: one confined process for each session.
//!
//! The protocol's types are the official ones; the connection is our own, because what real and broken agents write
//! has to be counted, cut and survived line by line.

mod agent;
mod connection;
pub mod homes;
mod lines;
mod opening;
mod presets;
mod prompting;
mod redaction;
mod stderr;
mod updates;
mod waiting;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt, future, stream, stream::BoxStream};
use skein_core::{
    model::{FailureCode, SessionId},
    policy::permission::PermissionPolicy,
    ports::{
        AgentOutcome, AgentRuntime, AgentUpdate, ResidentAgent, ResidentRuntime, RunRequest,
        RuntimeFailure, StartAgent,
    },
};
use tokio_util::task::TaskTracker;

pub use self::{
    opening::{Introduction, probe},
    presets::{PRESETS, Preset, preset},
};
use crate::confine::{ConfineError, Confinement, Launch};

/// In a command, stands for the session's work tree.
const WORKSPACE: &str = "{workspace}";

/// How an agent is run.
#[derive(Debug, Clone)]
pub struct AcpSettings {
    /// Program and arguments; `{workspace}` is replaced.
    pub command: Vec<String>,
    /// Its values are secrets.
    pub env: BTreeMap<String, String>,
    pub confinement: Confinement,
    pub home: AgentHome,
    pub permissions: PermissionPolicy,
    /// By the names of repositories, instead of `permissions`.
    pub repository_permissions: BTreeMap<String, PermissionPolicy>,
    pub permission_timeout: Option<Duration>,
    /// For one turn.
    pub timeout: Duration,
}

/// What an agent takes for its user's home.
#[derive(Debug, Clone)]
pub enum AgentHome {
    /// One for each session, in this directory.
    Isolated(PathBuf),
    /// The person's own, with what they are logged in to.
    User(PathBuf),
}

/// Agents of one configured command.
pub struct Acp {
    settings: Arc<AcpSettings>,
    tasks: TaskTracker,
}

impl Acp {
    pub fn new(settings: AcpSettings) -> Self {
        Self { settings: Arc::new(settings), tasks: TaskTracker::new() }
    }
}

impl AgentRuntime for Acp {
    fn run(&self, _request: RunRequest) -> BoxStream<'static, AgentUpdate> {
        let message = "the agent has no process".to_owned();
        let failure = RuntimeFailure { code: FailureCode::AgentUnavailable, message };
        let end = AgentUpdate::Finished(AgentOutcome::Failed(failure));
        stream::once(future::ready(end)).boxed()
    }

    fn residence(&self) -> Option<&dyn ResidentRuntime> {
        Some(self)
    }
}

#[async_trait]
impl ResidentRuntime for Acp {
    async fn start(&self, start: StartAgent) -> Result<Arc<dyn ResidentAgent>, RuntimeFailure> {
        let settings = Arc::clone(&self.settings);
        let agent = opening::open(settings, self.tasks.clone(), start).await?;
        Ok(Arc::new(agent))
    }

    fn permissions(&self, repository: &str) -> PermissionPolicy {
        let settings = &self.settings;
        let special = settings.repository_permissions.get(repository);
        special.copied().unwrap_or(settings.permissions)
    }

    fn permission_timeout(&self) -> Option<Duration> {
        self.settings.permission_timeout
    }

    async fn discard(&self, session: SessionId) {
        if let AgentHome::Isolated(homes) = &self.settings.home {
            homes::remove(homes, session).await;
        }
    }
}

impl AcpSettings {
    /// Where the agent of a session has its home.
    fn home_of(&self, session: SessionId) -> PathBuf {
        match &self.home {
            AgentHome::Isolated(homes) => homes.join(session.to_string()),
            AgentHome::User(home) => home.clone(),
        }
    }

    async fn launch(
        &self,
        workspace: &str,
        home: &Path,
    ) -> Result<crate::confine::Caged, RuntimeFailure> {
        let command: Vec<String> =
            self.command.iter().map(|word| word.replace(WORKSPACE, workspace)).collect();
        let env = self.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let launch = Launch { command: &command, workspace: Path::new(workspace), home, env };
        self.confinement.spawn(launch).await.map_err(not_started)
    }
}

fn not_started(error: ConfineError) -> RuntimeFailure {
    let code = match &error {
        ConfineError::Unavailable { .. } | ConfineError::Cage { .. } => {
            FailureCode::ConfinementUnavailable
        }
        ConfineError::NotFound { .. } | ConfineError::Workspace { .. } | ConfineError::Io(_) => {
            FailureCode::AgentUnavailable
        }
    };
    let mut message = error.to_string();
    if let ConfineError::Io(cause) = &error {
        message = format!("{message}: {cause}");
    }
    if let ConfineError::NotFound { .. } = &error {
        message.push_str("; install it, or correct `command` of this agent in the configuration");
    }
    RuntimeFailure { code, message }
}
