//! W1 and W2: turns, one after the other and at once. W3, W6 and W8 are read off W1's store.

use std::time::{Duration, Instant};

use futures::future::try_join_all;

use crate::{
    arguments::RunArguments,
    client::Connection,
    process::{Meter, Used, folder_bytes, rss_megabytes},
    report::{
        PEER_W1_TURNS_PER_SECOND, PEER_W2_TURNS_PER_SECOND, Report, Target, median, milliseconds,
    },
    same_rows::RowsPerTurn,
    subject::{Home, Server, Subject, create_session, run_turn},
    text::Noise,
};

/// Long enough for a server to have settled.
const SETTLE: Duration = Duration::from_secs(1);

/// How often each read is repeated.
const READS: usize = 10;

/// What one round of turns gave.
struct Round {
    turns: usize,
    used: Used,
    /// Of each turn in milliseconds, in the order in which they ended.
    latencies: Vec<f64>,
    rows: RowsPerTurn,
}

impl Round {
    fn turns_per_second(&self) -> f64 {
        self.turns as f64 / self.used.wall.as_secs_f64()
    }

    fn server_milliseconds(&self) -> f64 {
        milliseconds(self.used.server) / self.turns as f64
    }

    fn client_milliseconds(&self) -> f64 {
        milliseconds(self.used.client) / self.turns as f64
    }
}

/// What is read off W1's store beside its turns.
#[derive(Default)]
struct Aftermath {
    idle_megabytes: Vec<f64>,
    full_megabytes: Vec<f64>,
    bytes_per_turn: Vec<f64>,
    bytes_per_turn_rested: Vec<f64>,
    bytes_per_turn_stopped: Vec<f64>,
    whole_history: Vec<f64>,
    last_40: Vec<f64>,
}

/// W1 with W3, W6 and W8.
pub(crate) async fn one_session(
    arguments: &RunArguments,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut rounds: [Vec<Round>; 2] = Default::default();
    let mut afters: [Aftermath; 2] = Default::default();
    for round in 0..arguments.rounds {
        for (index, subject) in Subject::BOTH.into_iter().enumerate() {
            let measured = w1_round(arguments, subject, &mut afters[index]).await?;
            tell("W1", subject, round, &measured);
            rounds[index].push(measured);
        }
    }
    let [skein, limit] = &rounds;
    let speed = of(skein, Round::turns_per_second);
    report.paired("W1", "turns/s, one session", speed, of(limit, Round::turns_per_second));
    report.peer("W1", "turns/s against agno AgentOS", speed / PEER_W1_TURNS_PER_SECOND, None);
    for (name, part) in [("p50 ms", 0.5), ("p99 ms", 0.99)] {
        let at = |round: &Round| quantile(&round.latencies, part);
        report.costs("W1", name, of(skein, at), of(limit, at));
    }
    let first = |round: &Round| quantile(&round.latencies[..round.turns.min(100)], 0.5);
    let last = |round: &Round| quantile(&round.latencies[round.turns.saturating_sub(100)..], 0.5);
    report.costs("W1", "median ms of the first 100", of(skein, first), of(limit, first));
    report.costs("W1", "median ms of the last 100", of(skein, last), of(limit, last));
    let cpu = Round::server_milliseconds;
    report.costs("W1", "server CPU ms/turn", of(skein, cpu), of(limit, cpu));
    report_aftermath(&afters, report);
    report.others("W1", others(&rounds));
    Ok(())
}

fn report_aftermath([skein, limit]: &[Aftermath; 2], report: &mut Report) {
    let both = |pick: fn(&Aftermath) -> &Vec<f64>| (median(pick(skein)), median(pick(limit)));
    let (ours, theirs) = both(|after| &after.whole_history);
    report.costs("W3", "all messages of W1's session, p50 ms", ours, theirs);
    let (ours, theirs) = both(|after| &after.last_40);
    report.costs("W3", "last 40 messages (20 turns), p50 ms", ours, theirs);
    let (ours, theirs) = both(|after| &after.idle_megabytes);
    report.judged("W6", "RSS idle, MB", (ours, Some(theirs)), Target::AtMost(30.0));
    let (ours, theirs) = both(|after| &after.full_megabytes);
    report.costs("W6", "RSS after W1, MB", ours, theirs);
    let (ours, theirs) = both(|after| &after.bytes_per_turn);
    let target = Target::AtMost(8_000.0);
    report.judged("W8", "bytes/turn at the end of W1, with the WAL", (ours, Some(theirs)), target);
    let (ours, theirs) = both(|after| &after.bytes_per_turn_rested);
    report.judged("W8", "bytes/turn a second later, with the WAL", (ours, Some(theirs)), target);
    let (ours, theirs) = both(|after| &after.bytes_per_turn_stopped);
    report.costs("W8", "bytes/turn, server stopped", ours, theirs);
}

async fn w1_round(
    arguments: &RunArguments,
    subject: Subject,
    after: &mut Aftermath,
) -> anyhow::Result<Round> {
    let home = Home::new(arguments)?;
    let server = Server::start(arguments, subject, &home).await?;
    tokio::time::sleep(SETTLE).await;
    after.idle_megabytes.push(rss_megabytes(server.pid)?);
    let mut connection = server.connect().await?;
    let session = create_session(&mut connection, "bench").await?;
    let stop_at = Instant::now() + Duration::from_secs(arguments.cap_seconds);
    let meter = Meter::start(server.pid)?;
    let plan = Plan { session: &session, turns: arguments.turns, stop_at };
    let latencies = plan.run(&mut connection, &mut Noise::new(1)).await?;
    let used = meter.stop()?;
    let turns = latencies.len();
    after.full_megabytes.push(rss_megabytes(server.pid)?);
    let bytes_per_turn =
        || Ok::<_, anyhow::Error>(folder_bytes(home.path())? as f64 / turns as f64);
    after.bytes_per_turn.push(bytes_per_turn()?);
    tokio::time::sleep(SETTLE).await;
    after.bytes_per_turn_rested.push(bytes_per_turn()?);
    let messages = format!("/api/sessions/{session}/messages");
    after.whole_history.push(read_p50(&mut connection, &messages, READS).await?);
    let last = format!("{messages}?last=40");
    after.last_40.push(read_p50(&mut connection, &last, READS).await?);
    drop(connection);
    server.stop().await?;
    after.bytes_per_turn_stopped.push(bytes_per_turn()?);
    let rows = RowsPerTurn::count(&home.database()?)?;
    Ok(Round { turns, used, latencies, rows })
}

/// W2.
pub(crate) async fn many_sessions(
    arguments: &RunArguments,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut rounds: [Vec<Round>; 2] = Default::default();
    let mut after: [Vec<f64>; 2] = Default::default();
    for round in 0..arguments.rounds {
        for (index, subject) in Subject::BOTH.into_iter().enumerate() {
            let (measured, megabytes) = w2_round(arguments, subject).await?;
            tell("W2", subject, round, &measured);
            rounds[index].push(measured);
            after[index].push(megabytes);
        }
    }
    let [skein, limit] = &rounds;
    let (ours, theirs) = (of(skein, Round::turns_per_second), of(limit, Round::turns_per_second));
    let name = format!("turns/s, {} sessions at once", arguments.w2_sessions);
    report.paired("W2", &name, ours, theirs);
    report.ratio("W2", "share of the same-rows limit", ours / theirs, Target::AtLeast(0.6));
    let times = ours / PEER_W2_TURNS_PER_SECOND;
    report.peer("W2", "turns/s against agno AgentOS", times, Some(Target::AtLeast(15.0)));
    let cpu = Round::server_milliseconds;
    let costs = (of(skein, cpu), Some(of(limit, cpu)));
    report.judged("W2", "server CPU ms/turn", costs, Target::AtMost(0.6));
    let client = Round::client_milliseconds;
    report.costs("W2", "client CPU ms/turn", of(skein, client), of(limit, client));
    for (name, part) in [("p50 ms", 0.5), ("p99 ms", 0.99)] {
        let at = |round: &Round| quantile(&round.latencies, part);
        report.costs("W2", name, of(skein, at), of(limit, at));
    }
    report.costs("W6", "RSS after W2, MB", median(&after[0]), median(&after[1]));
    report.others("W2", others(&rounds));
    if let (Some(ours), Some(theirs)) = (skein.last(), limit.last()) {
        report.note(format!("Rows a turn in W2: Skein {}; limit {}.", ours.rows, theirs.rows));
    }
    Ok(())
}

async fn w2_round(arguments: &RunArguments, subject: Subject) -> anyhow::Result<(Round, f64)> {
    let home = Home::new(arguments)?;
    let server = Server::start(arguments, subject, &home).await?;
    let (latencies, used) = at_once(arguments, &server).await?;
    let megabytes = rss_megabytes(server.pid)?;
    server.stop().await?;
    let rows = RowsPerTurn::count(&home.database()?)?;
    Ok((Round { turns: latencies.len(), used, latencies, rows }, megabytes))
}

/// The turns of W2 on a server; gives their latencies in milliseconds.
pub(crate) async fn at_once(
    arguments: &RunArguments,
    server: &Server,
) -> anyhow::Result<(Vec<f64>, Used)> {
    let mut clients = Vec::new();
    for seed in 0..arguments.w2_sessions {
        let mut connection = server.connect().await?;
        let session = create_session(&mut connection, "bench").await?;
        clients.push((connection, session, Noise::new(seed as u64 + 2)));
    }
    let stop_at = Instant::now() + Duration::from_secs(arguments.cap_seconds);
    let meter = Meter::start(server.pid)?;
    let runs = clients.iter_mut().map(|(connection, session, noise)| async move {
        Plan { session, turns: arguments.w2_turns, stop_at }.run(connection, noise).await
    });
    let latencies = try_join_all(runs).await?.concat();
    Ok((latencies, meter.stop()?))
}

/// Turns of one session, each sent when the one before it was answered.
pub(crate) struct Plan<'a> {
    pub(crate) session: &'a str,
    pub(crate) turns: usize,
    pub(crate) stop_at: Instant,
}

impl Plan<'_> {
    /// Gives the latencies in milliseconds.
    pub(crate) async fn run(
        &self,
        connection: &mut Connection,
        noise: &mut Noise,
    ) -> anyhow::Result<Vec<f64>> {
        let mut latencies = Vec::with_capacity(self.turns);
        let mut before = Instant::now();
        while latencies.len() < self.turns && before < self.stop_at {
            run_turn(connection, self.session, noise).await?;
            let now = Instant::now();
            latencies.push(milliseconds(now - before));
            before = now;
        }
        Ok(latencies)
    }
}

/// The median of so many reads of one path, in milliseconds.
pub(crate) async fn read_p50(
    connection: &mut Connection,
    path: &str,
    reads: usize,
) -> anyhow::Result<f64> {
    let mut latencies = Vec::with_capacity(reads);
    for _ in 0..reads {
        let before = Instant::now();
        connection.get(path).await?;
        latencies.push(milliseconds(before.elapsed()));
    }
    Ok(median(&latencies))
}

fn of(rounds: &[Round], measure: impl Fn(&Round) -> f64) -> f64 {
    median(&rounds.iter().map(measure).collect::<Vec<_>>())
}

/// How many processors others kept busy, round for round.
fn others(rounds: &[Vec<Round>; 2]) -> Vec<f64> {
    rounds.iter().flatten().map(|round| round.used.other_processors).collect()
}

pub(crate) fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = (sorted.len().saturating_sub(1) as f64 * part) as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

fn tell(workload: &str, subject: Subject, round: usize, measured: &Round) {
    eprintln!(
        "{workload} {} round {}: {:.0} turns/s, server {:.3} ms/turn, client {:.3} ms/turn, p50 {:.2} ms, others used {:.2} processors",
        subject.name(),
        round + 1,
        measured.turns_per_second(),
        measured.server_milliseconds(),
        measured.client_milliseconds(),
        quantile(&measured.latencies, 0.5),
        measured.used.other_processors,
    );
}
