//! What Skein adds to the time until the first text, with many turns at once.

use std::time::Duration;

use futures::future::try_join_all;

use super::{provider::Provider, talk::Talk};
use crate::{
    arguments::{ProviderArguments, RunArguments},
    process::{Cpu, Meter, Used},
    report::{Report, Target, median, milliseconds},
    subject::Server,
    turns::quantile,
};

/// The provider waits so long before each event behind the first text, so that a turn takes about half a second.
const PAUSE_MS: u64 = 25;

/// Events up to the first text: it is created, goes on, has an item, which has a part, which has a delta.
const UP_TO_TEXT: usize = 5;

/// Turns that are not counted: connections are made, pools filled.
const WARM_UP: usize = 2;

struct Round {
    skein: Vec<f64>,
    direct: Vec<f64>,
    used: Used,
    /// Processors that neither Skein nor its client nor the provider kept busy.
    others: f64,
}

impl Round {
    /// How much later the first text comes than without Skein.
    fn added(&self, part: f64) -> f64 {
        quantile(&self.skein, part) - quantile(&self.direct, part)
    }
}

pub(super) async fn measure(arguments: &RunArguments, report: &mut Report) -> anyhow::Result<()> {
    let sessions = arguments.context_sessions;
    let paced =
        ProviderArguments { answer_bytes: None, pause_ms: PAUSE_MS, quick_events: UP_TO_TEXT };
    let name = format!("ms added to the first text, {sessions} turns under way");
    measure_with(arguments, &paced, (&name, "first text, paced"), report).await?;
    let at_once = ProviderArguments { answer_bytes: None, pause_ms: 0, quick_events: 0 };
    let name = format!("ms added to the first text, {sessions} turns at full speed");
    measure_with(arguments, &at_once, (&name, "first text, full speed"), report).await
}

async fn measure_with(
    arguments: &RunArguments,
    provider: &ProviderArguments,
    (name, kind): (&str, &str),
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut rounds = Vec::new();
    for number in 1..=arguments.rounds {
        let round = round(arguments, provider).await?;
        eprintln!(
            "Context {kind}, round {number}: Skein {:.2} / {:.2} ms, direct {:.2} / {:.2} ms (p50 / p99), \
             server CPU {:.2} ms/turn, others used {:.2} processors",
            quantile(&round.skein, 0.5),
            quantile(&round.skein, 0.99),
            quantile(&round.direct, 0.5),
            quantile(&round.direct, 0.99),
            milliseconds(round.used.server) / round.skein.len() as f64,
            round.others,
        );
        rounds.push(round);
    }
    let of = |part: f64| median(&rounds.iter().map(|round| round.added(part)).collect::<Vec<_>>());
    report.judged("Context", &format!("{name}, p50"), (of(0.5), None), Target::AtMost(5.0));
    report.judged("Context", &format!("{name}, p99"), (of(0.99), None), Target::AtMost(25.0));
    report.others(&format!("Context, {kind}"), rounds.iter().map(|round| round.others).collect());
    Ok(())
}

async fn round(arguments: &RunArguments, provider: &ProviderArguments) -> anyhow::Result<Round> {
    let provider = Provider::start(provider).await?;
    let home = provider.home(arguments)?;
    let server = Server::start_skein(arguments, &home).await?;
    let seeds = 0..arguments.context_sessions as u64;
    let talks = seeds.clone().map(|seed| Talk::with(&provider, 1_000 + seed));
    let direct = all(try_join_all(talks).await?, arguments.context_turns).await?;
    let talks = try_join_all(seeds.map(|seed| Talk::through(&server, seed))).await?;
    let (meter, before) = (Meter::start(server.pid)?, Cpu::of(provider.pid)?);
    let skein = all(talks, arguments.context_turns).await?;
    let used = meter.stop()?;
    let provided = Cpu::of(provider.pid)?.since(&before).as_secs_f64() / used.wall.as_secs_f64();
    server.stop().await?;
    let others = (used.other_processors - provided).max(0.0);
    Ok(Round { skein, direct, used, others })
}

/// All conversations at once, each turn after turn; they begin one after the other, so that their turns
/// do not stay in step.
async fn all(talks: Vec<Talk>, turns: usize) -> anyhow::Result<Vec<f64>> {
    let each = talks.into_iter().enumerate().map(|(index, mut talk)| async move {
        tokio::time::sleep(Duration::from_millis(7 * index as u64)).await;
        let mut waits = Vec::with_capacity(turns);
        for turn in 0..WARM_UP + turns {
            let wait = talk.turn().await?;
            if turn >= WARM_UP {
                waits.push(wait);
            }
        }
        anyhow::Ok(waits)
    });
    Ok(try_join_all(each).await?.concat())
}
