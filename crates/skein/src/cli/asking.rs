//! The commands that ask, and those that look at what came of it.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `skein ask`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Ask {
    /// What is wanted; what comes on stdin is added to it
    #[arg(value_name = "INSTRUCTION")]
    pub(crate) words: Vec<String>,
    /// Show the agent this file too; may be repeated
    #[arg(long = "file", short = 'f', value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Go on with the last session of this directory
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    pub(crate) continues: bool,
    /// Go on with this session: its id, or the beginning of it
    #[arg(long, short, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Which agent answers
    #[arg(long, short, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Which model answers, e.g. openai/gpt-5; with --agent all of it is the model's name
    #[arg(long, short, value_name = "[PROVIDER/]MODEL")]
    pub(crate) model: Option<String>,
    /// Whether an answer is wanted or files to write [default: ask]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<Mode>,
    /// Write the files that the agent proposes into this work tree; means --mode edit
    #[arg(long)]
    pub(crate) apply: bool,
    /// Only show what would be sent, and why
    #[arg(long, conflicts_with_all = ["apply", "detach"])]
    pub(crate) dry_run: bool,
    /// Print the ids of session and turn, and do not wait for the answer
    #[arg(long, conflicts_with = "apply")]
    pub(crate) detach: bool,
    /// Leave out the files that Git says are modified
    #[arg(long)]
    pub(crate) no_git: bool,
    /// The language that the work is about
    #[arg(long, value_name = "LANGUAGE")]
    pub(crate) lang: Option<String>,
    /// Look for passages only in files like this, e.g. src/**; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) scope: Vec<String>,
    /// Show the agent's thoughts on stderr
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    Ask,
    Edit,
}

impl Mode {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Edit => "edit",
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum TurnCommand {
    /// List the turns of a session, oldest first
    List {
        /// The session's id, the beginning of it, or `last` for the last one of this directory
        #[arg(default_value = "last")]
        session: String,
        /// At most this many, up to 200
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// The ones before this number
        #[arg(long, value_name = "NUMBER", conflicts_with = "after")]
        before: Option<u32>,
        /// The ones after this number
        #[arg(long, value_name = "NUMBER")]
        after: Option<u32>,
    },
    /// Show a turn; exits with 1 when it failed
    Show(TurnName),
    /// Show what a turn sent, what it kept back, and why
    Context(TurnName),
    /// Run a turn again, as a new turn, and print the answer
    Rerun(Rerun),
    /// Wait until a turn has ended and print its answer; exits with 1 when it failed
    Wait(TurnName),
    /// End a turn that has not ended
    Cancel(TurnName),
}

/// A turn of a session.
#[derive(Debug, Clone, Args)]
pub(crate) struct TurnName {
    /// The session's id, the beginning of it, or `last` for the last one of this directory
    #[arg(default_value = "last")]
    pub(crate) session: String,
    /// Its number, its id, the beginning of it, or `last`
    #[arg(default_value = "last")]
    pub(crate) turn: String,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Rerun {
    #[command(flatten)]
    pub(crate) name: TurnName,
    /// What is wanted instead of the old instruction
    #[arg(long, value_name = "TEXT")]
    pub(crate) instruction: Option<String>,
    /// Show the agent this file too; may be repeated
    #[arg(long = "file", short = 'f', value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Leave out the files that Git says are modified
    #[arg(long)]
    pub(crate) no_git: bool,
    /// Print the ids of session and turn, and do not wait for the answer
    #[arg(long)]
    pub(crate) detach: bool,
    /// Show the agent's thoughts on stderr
    #[arg(long, short)]
    pub(crate) verbose: bool,
}
