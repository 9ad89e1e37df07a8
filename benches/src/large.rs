//! A store with a long session and many others: does cost grow, how quick are reads, how quick is a start.

use std::time::{Duration, Instant};

use futures::future::try_join_all;

use crate::{
    arguments::{RunArguments, Workload},
    process::{Meter, folder_bytes, rss_megabytes},
    report::{Report, Target, median, milliseconds},
    subject::{Home, Server, Subject, create_session},
    text::Noise,
    turns::{Plan, read_p50},
};

const READS: usize = 200;
const STARTS: usize = 5;

/// Turns are compared over windows of this many.
const WINDOW: usize = 500;

/// Sessions are made over this many connections.
const MAKERS: usize = 32;

pub(crate) async fn measure(arguments: &RunArguments, report: &mut Report) -> anyhow::Result<()> {
    let home = Home::new(arguments)?;
    let server = Server::start(arguments, Subject::Skein, &home).await?;
    if arguments.wants(Workload::Long) {
        long_session(arguments, &server, &home, report).await?;
    }
    if arguments.wants(Workload::W4) {
        many_sessions(arguments, &server, report).await?;
    }
    server.stop().await?;
    if arguments.wants(Workload::W7) {
        cold_starts(arguments, &home, report).await?;
    }
    Ok(())
}

/// Runs the turns of one session, and compares an early window with the last.
async fn long_session(
    arguments: &RunArguments,
    server: &Server,
    home: &Home,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut connection = server.connect().await?;
    let session = create_session(&mut connection, "bench").await?;
    let mut noise = Noise::new(7);
    let stop_at = Instant::now() + 5 * Duration::from_secs(arguments.cap_seconds);
    let mut costs = Vec::new();
    while costs.len() * WINDOW < arguments.long_turns && Instant::now() < stop_at {
        let meter = Meter::start(server.pid)?;
        let plan = Plan { session: &session, turns: WINDOW, stop_at };
        let turns = plan.run(&mut connection, &mut noise).await?.len();
        costs.push(milliseconds(meter.stop()?.server) / turns.max(1) as f64);
    }
    let turns = costs.len() * WINDOW;
    let shown: Vec<String> = costs.iter().map(|cost| format!("{cost:.3}")).collect();
    eprintln!("server CPU ms/turn per {WINDOW} turns: {}", shown.join(" "));
    if let (Some(early), Some(late)) = (costs.get(1), costs.last()) {
        report.plain("Long", &format!("server CPU ms/turn, turns {WINDOW}–{}", 2 * WINDOW), *early);
        report.plain(
            "Long",
            &format!("server CPU ms/turn, turns {}–{turns}", turns - WINDOW),
            *late,
        );
        report.ratio("Long", "late / early", late / early, Target::Within(0.10));
    }
    let bytes = folder_bytes(home.path())? as f64 / turns.max(1) as f64;
    report.plain("W8", &format!("bytes/turn after {turns} turns, with the WAL"), bytes);
    for (count, target) in [(20, Some(Target::AtMost(2.0))), (40, None)] {
        let path = format!("/api/sessions/{session}/messages?last={count}");
        let p50 = read_p50(&mut connection, &path, READS).await?;
        let name = format!("last {count} messages of {turns} turns, p50 ms");
        match target {
            Some(target) => report.judged("W3", &name, (p50, None), target),
            None => report.plain("W3", &name, p50),
        }
    }
    Ok(())
}

async fn many_sessions(
    arguments: &RunArguments,
    server: &Server,
    report: &mut Report,
) -> anyhow::Result<()> {
    let makers = (0..MAKERS).map(|_| async {
        let mut connection = server.connect().await?;
        for _ in 0..arguments.sessions.div_ceil(MAKERS) {
            create_session(&mut connection, "bench").await?;
        }
        anyhow::Ok(())
    });
    let before = Instant::now();
    try_join_all(makers).await?;
    let made = (arguments.sessions.div_ceil(MAKERS) * MAKERS) as f64;
    report.plain("W4", "sessions created/s", made / before.elapsed().as_secs_f64());
    let mut connection = server.connect().await?;
    let p50 = read_p50(&mut connection, "/api/sessions?limit=20", READS).await?;
    report.plain("W4", &format!("20 newest of {made} sessions, p50 ms"), p50);
    Ok(())
}

async fn cold_starts(
    arguments: &RunArguments,
    home: &Home,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (mut starts, mut megabytes) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let server = Server::start(arguments, Subject::Skein, home).await?;
        starts.push(milliseconds(server.ready_after));
        tokio::time::sleep(Duration::from_secs(1)).await;
        megabytes.push(rss_megabytes(server.pid)?);
        server.stop().await?;
    }
    let size = folder_bytes(home.path())? as f64 / 1e6;
    let name = format!("cold start on a store of {size:.0} MB, ms");
    report.judged("W7", &name, (median(&starts), None), Target::AtMost(150.0));
    let name = format!("RSS idle on a store of {size:.0} MB, MB");
    report.judged("W6", &name, (median(&megabytes), None), Target::AtMost(30.0));
    Ok(())
}
