//! Five agents that stream at once: is anything lost or out of order, and what do others notice.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;

use super::{
    desk::{Agent, Desk, Walls},
    others::{self, Waits},
};
use crate::{
    arguments::RunArguments,
    process::{Cpu, Meter, descendants},
    report::{Report, Target, median, milliseconds},
    turns::quantile,
};

const AGENTS: usize = 5;
/// Of each agent.
const UPDATES_PER_SECOND: usize = 1_000;

struct Round {
    without: Waits,
    with: Waits,
    /// Of each agent, from its prompt to the end of its turn.
    seconds: Vec<f64>,
    events: usize,
    server_processors: f64,
    others: f64,
}

pub(super) async fn measure(arguments: &RunArguments, report: &mut Report) -> anyhow::Result<()> {
    let (mut without, mut with) = (Waits::default(), Waits::default());
    let (mut seconds, mut events) = (Vec::new(), Vec::new());
    let (mut processors, mut others) = (Vec::new(), Vec::new());
    for number in 1..=arguments.rounds {
        let round = round(arguments).await?;
        tell(number, &round);
        without.extend(round.without);
        with.extend(round.with);
        seconds.extend(round.seconds);
        events.push(round.events as f64);
        processors.push(round.server_processors);
        others.push(round.others);
    }
    let slowest = seconds.iter().copied().fold(0.0, f64::max);
    let updates = arguments.agent_updates;
    let rate = updates as f64 / slowest;
    let name = format!("updates/s of the slowest of {AGENTS} agents that send 1,000/s, none lost");
    report.judged("Agents", &name, (rate, None), Target::AtLeast(0.95 * UPDATES_PER_SECOND as f64));
    let name = format!("events that {} updates became", AGENTS * updates);
    report.plain("Agents", &name, median(&events));
    report.plain("Agents", "processors that the server used meanwhile", median(&processors));
    let kinds = [
        ("a turn of another agent", &with.turns, &without.turns),
        ("GET of a session", &with.reads, &without.reads),
    ];
    for (name, with, without) in kinds {
        let named = |part| format!("{name} meanwhile, {part} ms (limit: agents at rest)");
        report.costs("Agents", &named("p50"), quantile(with, 0.5), quantile(without, 0.5));
        let both = (quantile(with, 0.99), Some(quantile(without, 0.99)));
        report.judged("Agents", &named("p99"), both, Target::AtMost(50.0));
    }
    report.others("Agents, streams", others);
    Ok(())
}

fn tell(number: usize, round: &Round) {
    let shown = |waits: &Waits| {
        let at = |values: &Vec<f64>, part| quantile(values, part);
        let (turns, reads) = (&waits.turns, &waits.reads);
        format!(
            "turns {:.2} / {:.2} ms, reads {:.2} / {:.2} ms",
            at(turns, 0.5),
            at(turns, 0.99),
            at(reads, 0.5),
            at(reads, 0.99)
        )
    };
    eprintln!(
        "Agents streams, round {number}: {}; without them {} (p50 / p99); slowest agent {:.2} s, {} events, server \
         used {:.2} processors, others {:.2}",
        shown(&round.with),
        shown(&round.without),
        round.seconds.iter().copied().fold(0.0, f64::max),
        round.events,
        round.server_processors,
        round.others,
    );
}

async fn round(arguments: &RunArguments) -> anyhow::Result<Round> {
    let count = arguments.agent_updates;
    let mut desk = Desk::start(arguments, Walls::All, AGENTS).await?;
    let mut agents = Vec::new();
    for _ in 0..AGENTS {
        agents.push(desk.open().await?.0);
    }
    let looked_at = agents[0].session.clone();
    let rest = Duration::from_secs_f64(count as f64 / UPDATES_PER_SECOND as f64);
    let is_done = Cell::new(false);
    let resting = async {
        tokio::time::sleep(rest).await;
        is_done.set(true);
        Ok(())
    };
    let (without, ()) =
        futures::try_join!(others::ask(&desk.server, &looked_at, &is_done), resting)?;

    is_done.set(false);
    let processes = descendants(desk.server.pid)?;
    let cpu = || processes.iter().map(|pid| Cpu::of(*pid)).collect::<anyhow::Result<Vec<_>>>();
    let (meter, before) = (Meter::start(desk.server.pid)?, cpu()?);
    for agent in &agents {
        desk.prompt(&agent.session, &format!("flood {count} {UPDATES_PER_SECOND}")).await?;
    }
    let streaming = async {
        let streamed = try_join_all(agents.iter_mut().map(Streamed::until_the_end)).await?;
        is_done.set(true);
        anyhow::Ok(streamed)
    };
    let (with, streamed) =
        futures::try_join!(others::ask(&desk.server, &looked_at, &is_done), streaming)?;
    let used = meter.stop()?;
    let theirs: Duration =
        cpu()?.iter().zip(&before).map(|(after, before)| after.since(before)).sum();

    let sent: String = (1..=count).map(|number| format!("{number} ")).collect();
    for (agent, streamed) in agents.iter().zip(&streamed) {
        ensure!(streamed.text == sent, "what {} streamed is not what was sent", agent.session);
        let kept = desk.said(&agent.session).await?;
        ensure!(kept == sent, "what {} has kept is not what was sent", agent.session);
    }
    desk.stop().await?;
    let wall = used.wall.as_secs_f64();
    Ok(Round {
        without,
        with,
        seconds: streamed.iter().map(|streamed| streamed.seconds).collect(),
        events: streamed.iter().map(|streamed| streamed.deltas).sum(),
        server_processors: used.server.as_secs_f64() / wall,
        others: (used.other_processors - theirs.as_secs_f64() / wall).max(0.0),
    })
}

/// What came of one agent's turn.
struct Streamed {
    text: String,
    deltas: usize,
    seconds: f64,
}

impl Streamed {
    /// Events must follow each other without a gap, up to the end of the turn.
    async fn until_the_end(agent: &mut Agent) -> anyhow::Result<Self> {
        let began = Instant::now();
        let (mut text, mut deltas, mut last) = (String::new(), 0, None);
        loop {
            let event = agent.events.next().await?;
            let is_next = last.is_none_or(|last: u64| event.id == last + 1);
            ensure!(is_next, "event {} follows {last:?}", event.id);
            last = Some(event.id);
            match event.kind.as_str() {
                "message.delta" => {
                    let told = event.json()?;
                    text.push_str(told["data"]["text"].as_str().context("no text")?);
                    deltas += 1;
                }
                "turn.completed" => break,
                "turn.failed" => anyhow::bail!("the turn failed: {}", event.data),
                _ => {}
            }
        }
        Ok(Self { text, deltas, seconds: milliseconds(began.elapsed()) / 1e3 })
    }
}
