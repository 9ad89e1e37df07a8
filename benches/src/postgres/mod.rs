//! W2 on PostgreSQL, beside pgbench writing the same rows, and beside itself without row-level security.

pub(crate) mod cluster;

use anyhow::Context as _;

use crate::{
    arguments::RunArguments,
    limit,
    process::Cpu,
    report::{Report, Target, median, milliseconds},
    same_rows::RowsPerTurn,
    subject::{Home, INSTRUCTION_BYTES, REPLY_BYTES, Server},
    text::Noise,
    turns::at_once,
};
use cluster::{Cluster, Database};

/// Turns of each session before the clock starts: connections are opened and statements prepared.
const WARM_UP_TURNS: usize = 5;

const SCRIPT: &str = include_str!("turn.sql");

/// What writes the turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    Skein,
    /// The same without row-level security.
    Unguarded,
    Pgbench,
}

impl Writer {
    const ALL: [Self; 3] = [Self::Skein, Self::Unguarded, Self::Pgbench];
}

/// What one round gave.
struct Round {
    turns_per_second: f64,
    /// Of Skein alone.
    server_milliseconds: Option<f64>,
    /// Of PostgreSQL alone.
    database_milliseconds: f64,
    rows: RowsPerTurn,
}

pub(crate) async fn measure(arguments: &RunArguments, report: &mut Report) -> anyhow::Result<()> {
    let Some(cluster) = Cluster::start(&arguments.postgres_data)? else {
        report.note("PostgreSQL is not installed, so nothing was measured on it.".to_owned());
        return Ok(());
    };
    let mut rounds: [Vec<Round>; 3] = Default::default();
    for round in 0..arguments.rounds {
        for (index, writer) in Writer::ALL.into_iter().enumerate() {
            let database = cluster.create(&format!("round_{round}_{index}")).await?;
            let measured = run(arguments, &database, writer).await?;
            eprintln!(
                "PostgreSQL {writer:?} round {}: {:.0} turns/s, server {:.3} ms/turn, database {:.3} ms/turn",
                round + 1,
                measured.turns_per_second,
                measured.server_milliseconds.unwrap_or_default(),
                measured.database_milliseconds,
            );
            rounds[index].push(measured);
        }
    }
    let speed = |rounds: &[Round]| {
        median(&rounds.iter().map(|round| round.turns_per_second).collect::<Vec<_>>())
    };
    let [guarded, unguarded, pgbench] = &rounds;
    let (ours, open, theirs) = (speed(guarded), speed(unguarded), speed(pgbench));
    let name = format!("turns/s, {} sessions at once, beside pgbench", arguments.w2_sessions);
    report.paired("PG", &name, ours, theirs);
    report.ratio(
        "PG",
        "share of pgbench writing the same rows",
        ours / theirs,
        Target::AtLeast(0.6),
    );
    report.plain("PG", "turns/s without row-level security", open);
    report.ratio("PG", "cost of row-level security", 1.0 - ours / open, Target::AtMost(0.2));
    let cpu: Vec<f64> = guarded.iter().filter_map(|round| round.server_milliseconds).collect();
    report.plain("PG", "CPU ms/turn of Skein alone", median(&cpu));
    let database = |rounds: &[Round]| {
        median(&rounds.iter().map(|round| round.database_milliseconds).collect::<Vec<_>>())
    };
    report.costs("PG", "CPU ms/turn of PostgreSQL", database(guarded), database(pgbench));
    report.plain("PG", "the same without row-level security", database(unguarded));
    if let (Some(ours), Some(theirs)) = (guarded.last(), pgbench.last()) {
        report.note(format!(
            "Rows a turn on PostgreSQL: Skein {}; pgbench {}.",
            ours.rows, theirs.rows
        ));
    }
    Ok(())
}

async fn run(
    arguments: &RunArguments,
    database: &Database<'_>,
    writer: Writer,
) -> anyhow::Result<Round> {
    let home = Home::on(arguments, &database.settings())?;
    home.migrate(arguments).await?;
    // It makes the org, its owner and the agents.
    let server = Server::start_skein(arguments, &home).await?;
    if writer == Writer::Pgbench {
        server.stop().await?;
        return pgbench(arguments, database).await;
    }
    let login = database.connect().await?;
    if writer == Writer::Unguarded {
        login.batch_execute(UNGUARD).await?;
    }
    login.batch_execute("CHECKPOINT").await?;
    let warm = RunArguments { w2_turns: WARM_UP_TURNS, ..arguments.clone() };
    at_once(&warm, &server).await?;
    let (before, database_before) = (Cpu::of(server.pid)?, database.cpu()?);
    let (latencies, used) =
        at_once(&RunArguments { w2_turns: arguments.postgres_turns, ..arguments.clone() }, &server)
            .await?;
    let cpu = Cpu::of(server.pid)?.since(&before);
    let database_cpu = database.cpu()? - database_before;
    server.stop().await?;
    let turns = latencies.len() as f64;
    Ok(Round {
        turns_per_second: turns / used.wall.as_secs_f64(),
        server_milliseconds: Some(milliseconds(cpu) / turns),
        database_milliseconds: milliseconds(database_cpu) / turns,
        rows: RowsPerTurn::count_in(&login).await?,
    })
}

async fn pgbench(arguments: &RunArguments, database: &Database<'_>) -> anyhow::Result<Round> {
    let login = database.connect().await?;
    let known = login.query_one("SELECT org_id::text, id::text FROM users", &[]).await?;
    let (org, user): (String, String) = (known.get(0), known.get(1));
    let clients = arguments.w2_sessions;
    login
        .batch_execute(&format!(
            "INSERT INTO logs (org_id, id)
             SELECT '{org}', lpad(to_hex(1000000000 + n::bigint), 32, '0')::uuid
             FROM generate_series(0, {clients} - 1) AS n;
             CHECKPOINT"
        ))
        .await?;
    let mut noise = Noise::new(21);
    let (instruction, reply) = (noise.text(INSTRUCTION_BYTES), noise.text(REPLY_BYTES));
    let data = limit::EventData::new(&instruction, &reply)?;
    let bytea = |bytes: &[u8]| {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("\\x{digits}")
    };
    let variables = [
        ("n", "0".to_owned()),
        ("org", org),
        ("user", user),
        ("hash", bytea(&[9; 32])),
        ("detail", bytea(br#"{"session":"00000000-0000-0000-0000-000000000000"}"#)),
        ("summary", reply.chars().take(limit::SUMMARY_CHARS).collect()),
        ("instruction", instruction),
        ("opened", bytea(&data.opened)),
        ("question", bytea(&data.question)),
        ("answer", bytea(&data.answer)),
        ("closed", bytea(&data.closed)),
    ];
    let before = database.cpu()?;
    let told = database.pgbench(SCRIPT, (clients, arguments.postgres_turns), &variables)?;
    let turns_per_second = told
        .lines()
        .find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok())
        .with_context(|| format!("pgbench told no speed: {told}"))?;
    let turns = (clients * arguments.postgres_turns) as f64;
    let database_milliseconds = milliseconds(database.cpu()? - before) / turns;
    let rows = RowsPerTurn::count_in(&login).await?;
    Ok(Round { turns_per_second, server_milliseconds: None, database_milliseconds, rows })
}

/// What keeps tenants apart in the database, switched off.
const UNGUARD: &str = "DO $$
DECLARE
    guarded text;
BEGIN
    FOR guarded IN SELECT relname FROM pg_class WHERE relrowsecurity AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %I DISABLE ROW LEVEL SECURITY', guarded);
    END LOOP;
END $$";
