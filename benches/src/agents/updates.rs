//! From the line that an agent writes to the client that follows its session.
//!
//! Text is gathered on purpose, so the updates are those of a call, which are written at once. They come one at a time,
//! and each carries the time at which the agent made it. After each, a thread of its own commits the same event to a
//! store of its own, so that both are measured on the same machine at the same time, and a disk that stalls there is
//! not booked on the updates that arrive meanwhile.

use std::{
    fs,
    sync::mpsc::{self, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, anyhow, ensure};

use super::desk::{Desk, Walls};
use crate::{
    arguments::RunArguments,
    limit,
    process::{Cpu, Meter, descendants},
    report::{Report, Target, median, milliseconds},
    subject::Home,
    turns::quantile,
};

/// Far more than an update and a commit take, so that none waits for another.
const PAUSE: Duration = Duration::from_millis(20);

/// Updates that are not counted: caches are filled.
const WARM_UP: usize = 20;

struct Round {
    /// Milliseconds from the agent to the client.
    updates: Vec<f64>,
    /// Milliseconds of a commit of the same event, and nothing else.
    commits: Vec<f64>,
    server_milliseconds: f64,
    others: f64,
}

impl Round {
    fn beyond(&self, part: f64) -> f64 {
        quantile(&self.updates, part) - quantile(&self.commits, part)
    }
}

pub(super) async fn measure(arguments: &RunArguments, report: &mut Report) -> anyhow::Result<()> {
    let mut rounds = Vec::new();
    for number in 1..=arguments.rounds {
        let round = round(arguments).await?;
        eprintln!(
            "Agents updates, round {number}: {:.2} / {:.2} ms, commit {:.2} / {:.2} ms (p50 / p99), server CPU \
             {:.3} ms/update, others used {:.2} processors",
            quantile(&round.updates, 0.5),
            quantile(&round.updates, 0.99),
            quantile(&round.commits, 0.5),
            quantile(&round.commits, 0.99),
            round.server_milliseconds,
            round.others,
        );
        rounds.push(round);
    }
    let of =
        |measure: &dyn Fn(&Round) -> f64| median(&rounds.iter().map(measure).collect::<Vec<_>>());
    for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
        let update = of(&|round| quantile(&round.updates, part));
        let commit = of(&|round| quantile(&round.commits, part));
        let name = format!("ms from an agent's line to the SSE client, {name} (limit: the commit)");
        report.costs("Agents", &name, update, commit);
    }
    let (name, beyond) = ("ms beyond the commit, p50", of(&|round| round.beyond(0.5)));
    if beyond < 0.0 {
        // The whole way contains a commit, so such a figure says nothing about the target.
        report.plain("Agents", name, beyond);
        report
            .note("**Not settled**: the commit alone took longer than the way with it.".to_owned());
    } else {
        report.judged("Agents", name, (beyond, None), Target::AtMost(2.0));
    }
    report.plain("Agents", "ms beyond the commit, p99", of(&|round| round.beyond(0.99)));
    report.plain("Agents", "server CPU ms/update", of(&|round| round.server_milliseconds));
    report.others("Agents, updates", rounds.iter().map(|round| round.others).collect());
    Ok(())
}

/// Commits every event that is sent, and gives back how many milliseconds each took.
fn commits(
    mut committer: limit::Commits,
) -> (Sender<String>, JoinHandle<anyhow::Result<Vec<f64>>>) {
    let (sender, events) = mpsc::channel();
    let commit = move || events.into_iter().map(|event| committer.event(event)).collect();
    (sender, thread::spawn(commit))
}

async fn round(arguments: &RunArguments) -> anyhow::Result<Round> {
    let home = Home::new(arguments)?;
    let database = home.path().join(limit::DATABASE);
    fs::copy(&arguments.empty_store, &database)?;
    let (commit, committing) = commits(limit::Commits::open(&database)?);
    let mut desk = Desk::start(arguments, Walls::All, 1).await?;
    let (mut agent, _) = desk.open().await?;
    let count = WARM_UP + arguments.agent_lines;
    let agents = descendants(desk.server.pid)?;
    let cpu = || agents.iter().map(|pid| Cpu::of(*pid)).collect::<anyhow::Result<Vec<_>>>();
    let (meter, before) = (Meter::start(desk.server.pid)?, cpu()?);
    desk.prompt(&agent.session, &format!("stamp {count} {}", PAUSE.as_millis())).await?;
    let mut updates = Vec::with_capacity(count);
    loop {
        let event = agent.events.next().await?;
        match event.kind.as_str() {
            "tool.updated" => {
                let told = event.json()?;
                let made = told["data"]["args"]["nanos"].as_u64().context("no stamp")?;
                updates.push(event.arrived_nanos.saturating_sub(made) as f64 / 1e6);
                commit.send(told["data"].to_string())?;
            }
            "turn.completed" => break,
            "turn.failed" => anyhow::bail!("the turn failed: {}", event.data),
            _ => {}
        }
    }
    drop(commit);
    let mut commits =
        committing.join().map_err(|_| anyhow!("the committing thread panicked"))??;
    let used = meter.stop()?;
    let theirs: Duration =
        cpu()?.iter().zip(&before).map(|(after, before)| after.since(before)).sum();
    ensure!(updates.len() == count, "{} of {count} updates came", updates.len());
    desk.stop().await?;
    Ok(Round {
        updates: updates.split_off(WARM_UP),
        commits: commits.split_off(WARM_UP),
        server_milliseconds: milliseconds(used.server) / count as f64,
        others: (used.other_processors - theirs.as_secs_f64() / used.wall.as_secs_f64()).max(0.0),
    })
}
