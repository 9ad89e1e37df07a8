//! The commands about agents.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// List the agents in the settings and those that could be added, and say what is installed
    List,
    /// Add an agent that speaks the Agent Client Protocol to config.toml of the home
    #[command(
        long_about = "Add an agent that speaks the Agent Client Protocol to config.toml of the home.\n\nThe command \
                      follows behind --. It may be left out for the names that are known: gemini, codex, claude, \
                      opencode and goose. {workspace} in it stands for the repository of the session."
    )]
    Add(AgentAdd),
    /// Start an agent in an empty repository and see whether it answers; exits with 6 when it does not
    Test {
        /// Its name in the settings, or one that is known
        name: String,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct AgentAdd {
    /// What it is called
    pub(crate) name: String,
    /// What it may do without asking: ask, allow-reads or allow-all
    #[arg(long, value_name = "POLICY")]
    pub(crate) permissions: Option<String>,
    /// A directory that it may read besides its repository; may be repeated
    #[arg(long = "read", value_name = "DIR")]
    pub(crate) read_paths: Vec<String>,
    /// Give it your home with what you are logged in to, instead of a private one
    #[arg(long)]
    pub(crate) user_home: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}
