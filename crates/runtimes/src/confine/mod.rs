//! The cage that agent processes live in: what they may read, write and reach, and that all of them end together.
//!
//! From the outside in: bubblewrap (when it is installed) gives namespaces of their own; `skein __confine` restricts
//! itself, starts the agent and stays as its supervisor; the agent. See `docs/confinement.md`.

mod bubblewrap;
mod caged;
mod environment;
mod landlock;
mod message;
mod places;
mod privileges;
mod program;
mod supervisor;
mod support;
mod syscalls;
mod tree;

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

pub use bubblewrap::locate;
pub use caged::{Cage, Caged, Exit};
pub use supervisor::{CAGE_FAILED, main as supervise};
pub use support::{Bubblewrap, Nesting, Support};

/// How much an agent is held in.
#[derive(Debug, Clone)]
pub struct Confinement {
    pub requirement: Requirement,
    pub network: Network,
    /// What the agent may read besides the system, its own program and its workspace.
    pub read_paths: Vec<PathBuf>,
    /// What no agent may see, whatever else it may read: the Skein home. Its own home may be inside.
    pub hidden: Vec<PathBuf>,
    pub limits: ProcessLimits,
    pub launcher: Launcher,
}

/// What happens when a part of the confinement cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Requirement {
    /// The agent starts, and what is missing is said.
    Prefer,
    /// The agent does not start.
    Require,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    Allow,
    Deny,
}

/// What a process may use. Each limit is one process's, except the number of processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// Of data: heap and private writable memory. Address space that is only reserved does not count.
    pub memory_bytes: Option<u64>,
    pub cpu_seconds: Option<u64>,
    pub open_files: Option<u64>,
    /// Processes and threads of the agent together.
    pub processes: Option<u64>,
}

/// The programs that build the cage.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Launcher {
    /// The `skein` binary, for `skein __confine`.
    pub skein: PathBuf,
    /// `bwrap`; `None` does without it.
    pub bubblewrap: Option<PathBuf>,
}

/// One agent to start.
#[derive(Debug)]
pub struct Launch<'a> {
    /// Program and arguments.
    pub command: &'a [String],
    /// The real path of the work tree: absolute, without links.
    pub workspace: &'a Path,
    /// What the agent takes for its user's home. Made when it is not there.
    pub home: &'a Path,
    /// The agent's own variables; they win over inherited ones.
    pub env: Vec<(String, String)>,
}

/// Why an agent was not started.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    #[error("{program} was not found")]
    NotFound { program: String },
    /// Confinement is required, and this much of it cannot be had.
    #[error("the agent cannot be confined as required: {}", shortcomings.join("; "))]
    Unavailable { shortcomings: Vec<String> },
    /// The work tree is not the directory that was named.
    #[error("{} cannot be worked in: {reason}", path.display())]
    Workspace { path: PathBuf, reason: String },
    /// The cage could not be built, though everything for it is there.
    #[error("the cage failed: {reason}")]
    Cage { reason: String },
    #[error("the agent cannot be started")]
    Io(#[from] io::Error),
}

impl Launcher {
    /// The program that is running, and `bwrap` where the search path has it.
    pub fn find() -> io::Result<Self> {
        let path = environment::search_path();
        let bubblewrap = program::search("bwrap", path.as_deref());
        Ok(Self { skein: std::env::current_exe()?, bubblewrap })
    }

    /// The same without bubblewrap.
    pub fn without_bubblewrap(self) -> Self {
        Self { bubblewrap: None, ..self }
    }
}

impl Confinement {
    /// Everything that this machine offers, with the network.
    pub fn new(launcher: Launcher) -> Self {
        Self {
            requirement: Requirement::Prefer,
            network: Network::Allow,
            read_paths: Vec::new(),
            hidden: Vec::new(),
            limits: ProcessLimits::default(),
            launcher,
        }
    }

    /// What could not be had, one sentence each. Asks the kernel and bubblewrap once per process.
    pub fn inspect(&self) -> Vec<String> {
        Support::of(&self.launcher).shortcomings(self)
    }

    /// Starts an agent in its cage. When this returns, the agent runs in its workspace under every restriction that
    /// can be had, and [`Caged::shortcomings`] says which could not.
    pub async fn spawn(&self, launch: Launch<'_>) -> Result<Caged, ConfineError> {
        let confinement = self.clone();
        let order = caged::Order {
            command: launch.command.to_vec(),
            workspace: launch.workspace.to_owned(),
            home: launch.home.to_owned(),
            env: launch.env,
        };
        let spawned = tokio::task::spawn_blocking(move || caged::start(&confinement, order)).await;
        let starting = spawned.map_err(io::Error::other)??;
        starting.started().await
    }
}
