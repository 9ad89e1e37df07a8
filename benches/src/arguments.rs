//! What to measure, and how much of it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

#[derive(Debug, Parser)]
#[command(
    name = "skein-bench",
    about = "Measures Skein beside a program that writes the same rows"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the workloads and print a table.
    Run(Box<RunArguments>),
    /// Serve as the limit program, until the process is ended.
    Limit(LimitArguments),
    /// Serve as a provider of the Responses API, until the process is ended.
    Provider(ProviderArguments),
}

#[derive(Debug, Args)]
pub(crate) struct LimitArguments {
    /// The folder of its store.
    #[arg(long)]
    pub(crate) home: PathBuf,
    /// How many chunks a streamed turn has.
    #[arg(long)]
    pub(crate) chunks: usize,
}

#[derive(Debug, Args)]
pub(crate) struct ProviderArguments {
    /// Every answer has so many bytes; without it, it repeats the instruction.
    #[arg(long)]
    pub(crate) answer_bytes: Option<usize>,
    /// Waits so long before each event.
    #[arg(long, default_value_t = 0)]
    pub(crate) pause_ms: u64,
    /// So many events come without that pause.
    #[arg(long, default_value_t = 0)]
    pub(crate) quick_events: usize,
}

/// One thing to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// One session, turn after turn; also its history (W3), memory (W6) and disk (W8).
    W1,
    /// Many sessions at once.
    W2,
    /// A session of many turns: does a turn's cost grow, and how quick are its newest messages.
    Long,
    /// The newest of many sessions.
    W4,
    /// Cold start on a store that exists.
    W7,
    /// One producer, many subscribers.
    W9,
    /// W2 on PostgreSQL, beside pgbench.
    Postgres,
    /// The newest of a million sessions, as those who see all, few or many of them.
    Lists,
    /// What it costs to know who is calling.
    Auth,
    /// What goes to a model, how soon its first words come back, and what a long answer costs.
    Context,
    /// Agent processes: the way of an update, five that stream at once, starts and memory.
    Agents,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct RunArguments {
    /// The release binary.
    #[arg(long)]
    pub(crate) skein: PathBuf,
    /// Where stores are made. It must be on a disk: on a RAM disk a sync costs nothing.
    #[arg(long)]
    pub(crate) data: PathBuf,
    /// Only these, separated by commas.
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) only: Vec<Workload>,
    /// How often each measurement is repeated, Skein and limit in turn. The median counts.
    #[arg(long, env = "SKEIN_BENCH_ROUNDS", default_value_t = 5)]
    pub(crate) rounds: usize,
    /// Turns of W1.
    #[arg(long, env = "SKEIN_BENCH_TURNS", default_value_t = 1_000)]
    pub(crate) turns: usize,
    /// Sessions of W2.
    #[arg(long, env = "SKEIN_BENCH_W2_SESSIONS", default_value_t = 32)]
    pub(crate) w2_sessions: usize,
    /// Turns of each session of W2.
    #[arg(long, env = "SKEIN_BENCH_W2_TURNS", default_value_t = 50)]
    pub(crate) w2_turns: usize,
    /// Turns of the long session.
    #[arg(long, env = "SKEIN_BENCH_LONG_TURNS", default_value_t = 10_000)]
    pub(crate) long_turns: usize,
    /// Sessions of W4.
    #[arg(long, env = "SKEIN_BENCH_SESSIONS", default_value_t = 10_000)]
    pub(crate) sessions: usize,
    /// Chunks of W9, of 200 bytes each.
    #[arg(long, env = "SKEIN_BENCH_CHUNKS", default_value_t = 1_000)]
    pub(crate) chunks: usize,
    /// Subscribers of W9.
    #[arg(long, env = "SKEIN_BENCH_SUBSCRIBERS", default_value_t = 100)]
    pub(crate) subscribers: usize,
    /// Turns of each session on PostgreSQL.
    #[arg(long, env = "SKEIN_BENCH_POSTGRES_TURNS", default_value_t = 100)]
    pub(crate) postgres_turns: usize,
    /// Where PostgreSQL keeps its files; on a disk, and open to the user `postgres` if this runs as root.
    #[arg(long, env = "SKEIN_BENCH_POSTGRES_DATA", default_value_os_t = std::env::temp_dir())]
    pub(crate) postgres_data: PathBuf,
    /// Sessions of the lists.
    #[arg(long, env = "SKEIN_BENCH_LISTED", default_value_t = 1_000_000)]
    pub(crate) listed: usize,
    /// Turns that run at once when the time to the first text is measured.
    #[arg(long, env = "SKEIN_BENCH_CONTEXT_SESSIONS", default_value_t = 32)]
    pub(crate) context_sessions: usize,
    /// Turns of each of these sessions.
    #[arg(long, env = "SKEIN_BENCH_CONTEXT_TURNS", default_value_t = 30)]
    pub(crate) context_turns: usize,
    /// The scripted agent of the tests, which the workload `agents` talks to.
    #[arg(long)]
    pub(crate) scripted_agent: Option<PathBuf>,
    /// Updates of an agent whose way to the client is timed, in each round.
    #[arg(long, env = "SKEIN_BENCH_AGENT_LINES", default_value_t = 300)]
    pub(crate) agent_lines: usize,
    /// Updates of each of the five agents that stream at once, 1,000 a second, in each round.
    #[arg(long, env = "SKEIN_BENCH_AGENT_UPDATES", default_value_t = 10_000)]
    pub(crate) agent_updates: usize,
    /// Agents started one after the other, in each round.
    #[arg(long, env = "SKEIN_BENCH_AGENT_STARTS", default_value_t = 10)]
    pub(crate) agent_starts: usize,
    /// A single measurement stops after this, with what it has.
    #[arg(long, env = "SKEIN_BENCH_CAP_SECONDS", default_value_t = 60)]
    pub(crate) cap_seconds: u64,
    /// An empty store that Skein has made, so that the limit program writes to the same tables.
    #[arg(skip)]
    pub(crate) empty_store: PathBuf,
}

impl RunArguments {
    pub(crate) fn wants(&self, workload: Workload) -> bool {
        self.only.is_empty() || self.only.contains(&workload)
    }

    pub(crate) fn wants_any(&self, workloads: &[Workload]) -> bool {
        workloads.iter().any(|workload| self.wants(*workload))
    }
}
