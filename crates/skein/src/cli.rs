//! The command line: every command, argument and help text.

mod administration;
mod agents;
mod asking;
mod indexing;
mod providers;

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub(crate) use administration::{AuditCommand, OrgCommand, RepoCommand, UserCommand, UserRole};
pub(crate) use agents::{AgentAdd, AgentCommand};
pub(crate) use asking::{Ask, Mode, Rerun, TurnCommand, TurnName};
pub(crate) use indexing::{IndexCommand, IndexSearch};
pub(crate) use providers::{ChainChoice, ProviderAdd, ProviderCommand};

/// Keeps the sessions of AI agents.
#[derive(Debug, Parser)]
#[command(
    name = "skein",
    version,
    about,
    long_about = "Keeps the sessions of AI agents: one durable thread per piece of work, reachable \
                  from every interface, run by any agent, with nothing lost.\n\nWithout a command, \
                  skein starts the server and says what to try.",
    after_help = "Commands talk to the server that works on the home. Without one they do the work \
                  themselves. SKEIN_URL and SKEIN_TOKEN name another server.\n\nExit codes: 0 ok · \
                  1 failed · 2 usage · 3 not found · 4 auth · 5 conflict · 6 unavailable, try \
                  again · 130 interrupted",
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What every command understands.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Directory of settings, token, lock and data [default: skein in the user's data directory]
    #[arg(long, global = true, value_name = "DIR", env = "SKEIN_HOME", hide_env_values = true)]
    pub(crate) home: Option<PathBuf>,
    /// Print JSON: the body of the REST answer
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server, index the repository around, and say what to try (what `skein` alone does)
    #[command(
        long_about = "Start the server, index the repository around, and say what to try (what `skein` alone \
                      does).\n\nIn a Git work tree it vouches for exactly that tree, registers it and indexes it \
                      in the background. Nothing is written into it. Elsewhere it only serves."
    )]
    Up(Listen),
    /// Start the server
    #[command(
        long_about = "Start the server.\n\nWith --json the first line on stdout, once the server \
                      is ready, is {\"url\":…,\"tokenFile\":…,\"pid\":…}. On SIGTERM or SIGINT running \
                      turns may finish (25 s unless [server] drain_seconds says otherwise); a second \
                      signal stops at once. A home that another server works on is refused with exit \
                      code 5."
    )]
    Serve(Listen),
    /// Ask an agent
    #[command(
        long_about = "Ask an agent.\n\nThe answer goes to stdout as it comes, all else to stderr. Files that Git \
                      says are modified go along; what the agent has seen already is not sent again. A \
                      connection that is cut is taken up again. Ctrl-C ends the turn.\n\nWith --json the body of \
                      the REST answer is printed at the end."
    )]
    Ask(Box<Ask>),
    /// Create, read and end sessions
    #[command(subcommand)]
    Session(SessionCommand),
    /// List sessions, newest first (same as `session list`)
    ListSessions(SessionList),
    /// Read, repeat and end turns
    #[command(subcommand)]
    Turn(TurnCommand),
    /// Look after agents that run as processes of their own
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Look after providers of models
    #[command(subcommand)]
    Provider(ProviderCommand),
    /// Manage access tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Register repositories
    #[command(subcommand)]
    Repo(RepoCommand),
    /// Index repositories, and search them
    #[command(subcommand)]
    Index(IndexCommand),
    /// Look after the people of your organisation
    #[command(subcommand)]
    User(UserCommand),
    /// Look after organisations
    #[command(subcommand)]
    Org(OrgCommand),
    /// Read and check the audit log
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Change the version of the database schema
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Check this installation and say what to do about what is broken
    Doctor,
    /// Look at the settings
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script for a shell
    Completions { shell: Shell },
    /// Print the OpenAPI document
    #[command(hide = true)]
    Openapi,
    /// Print this reference as Markdown
    #[command(hide = true)]
    Reference,
    /// Hold an agent in; the server starts this, nobody else
    #[command(name = "__confine", hide = true)]
    Confine {
        /// Only say whether it can be started where it is
        #[arg(long)]
        probe: bool,
    },
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Listen {
    /// Address and port; port 0 takes a free one [default: 127.0.0.1:7534]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Repositories may be registered below this directory [default: none may]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace_root: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List sessions, newest first
    List(SessionList),
    /// Show a session
    Show {
        /// Id, or the beginning of it
        id: String,
        /// What to show with it: messages, turns, repository
        #[arg(long, value_name = "PARTS")]
        include: Option<String>,
    },
    /// Open a session
    New(SessionNew),
    /// End a session; its history stays
    Cancel {
        /// Id, or the beginning of it
        id: String,
        /// Why, for the record
        #[arg(long)]
        reason: Option<String>,
    },
    /// Remove a session with its history, for good
    Delete {
        /// Id, or the beginning of it
        id: String,
        /// Do not ask; without a terminal nothing is asked anyway
        #[arg(long, short)]
        yes: bool,
    },
    /// See what the agent of a session asks, and answer it
    Permit(SessionPermit),
    /// Follow what happens in a session, until it ends or Ctrl-C
    #[command(
        long_about = "Follow what happens in a session, until it ends or Ctrl-C.\n\nThe agent's text \
                      goes to stdout as it comes, all else to stderr. With --json every event is a \
                      line on stdout. A connection that is cut is taken up again where it ended."
    )]
    Watch {
        /// Id, or the beginning of it
        id: String,
        /// Begin after this event; 0 is the start of the session [default: only what is new]
        #[arg(long, value_name = "SEQ")]
        after: Option<u64>,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct SessionPermit {
    /// Id of the session, or the beginning of it
    pub(crate) id: String,
    /// The question; without it, all that wait are shown
    pub(crate) request: Option<String>,
    /// The option to take; without it, the question is shown
    #[arg(conflicts_with = "cancel")]
    pub(crate) option: Option<String>,
    /// Call the question off instead
    #[arg(long, requires = "request")]
    pub(crate) cancel: bool,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SessionList {
    /// Only these: active, completed, cancelled, error
    #[arg(long, value_name = "LIST")]
    pub(crate) status: Option<String>,
    /// Only these: created, active, suspended, completed, cancelled, failed
    #[arg(long, value_name = "LIST")]
    pub(crate) state: Option<String>,
    /// Only those of this agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Only those begun here: cli, api, graphql, webhook, web, pipeline
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Only those with this text in name, key or description
    #[arg(long, short = 'q', value_name = "TEXT")]
    pub(crate) search: Option<String>,
    /// At most this many, up to 200
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u32>,
    /// Go on from the nextCursor of the page before
    #[arg(long)]
    pub(crate) cursor: Option<String>,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SessionNew {
    /// Which agent answers
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// The repository that it is bound to: name, id or path; agents with a process need one
    #[arg(long, value_name = "REPO")]
    pub(crate) repo: Option<String>,
    /// What people call it
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// What programs call it
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// What it is about
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// What kind of work it is
    #[arg(long)]
    pub(crate) category: Option<String>,
    /// Everyone in the organisation may read it
    #[arg(long)]
    pub(crate) public: bool,
    /// A JSON object to keep with it
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token; its secret is shown once
    Create {
        /// What it is for
        name: String,
        /// The most that it may do
        #[arg(long, default_value = "member")]
        role: TokenRole,
        /// When it ends, e.g. 2027-01-31T00:00:00Z [default: when it is revoked]
        #[arg(long, value_name = "TIME")]
        expires_at: Option<String>,
        /// The one session that it opens [default: all that its user may see]
        #[arg(long, value_name = "ID")]
        session: Option<String>,
    },
    /// List tokens, newest first
    List {
        /// At most this many, up to 200
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Go on from the nextCursor of the page before
        #[arg(long)]
        cursor: Option<String>,
    },
    /// End a token at once
    Revoke {
        /// Id, or the beginning of it
        id: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenRole {
    Viewer,
    Member,
    Admin,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MigrateCommand {
    /// Show every step and whether it was made
    Status,
    /// Make every step that is missing; on SQLite `serve` does this by itself
    Up,
    /// Take steps back, and with them the data that only they can hold
    Down {
        /// The version to go back to; 0 removes everything
        #[arg(long, value_name = "VERSION")]
        to: u32,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every setting in force and where it came from
    Show,
}

/// The help of every command that is not hidden, as one Markdown page.
pub(crate) fn reference() -> String {
    let mut page = String::from(
        "# The `skein` command\n\nWritten by `UPDATE_DOCS=1 cargo test -p skein --test cli`; do not edit.\n",
    );
    // A fixed width, whatever terminal this runs in.
    let mut root = Cli::command().term_width(100);
    root.build();
    describe(&mut root, &mut page);
    page
}

fn describe(command: &mut clap::Command, page: &mut String) {
    let name = command.get_bin_name().unwrap_or("skein").to_owned();
    let help = command.render_long_help().to_string();
    let help = help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    page.push_str(&format!("\n## `{name}`\n\n```text\n{}\n```\n", help.trim_end()));
    for subcommand in command.get_subcommands_mut().filter(|command| !command.is_hide_set()) {
        describe(subcommand, page);
    }
}
