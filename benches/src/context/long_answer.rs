//! Memory of the server while long answers stream.

use std::time::Duration;

use futures::future::try_join_all;
use tokio::time::sleep;

use super::{provider::Provider, talk::Talk};
use crate::{
    arguments::{ProviderArguments, RunArguments},
    process::{forget_peak, peak_megabytes, rss_megabytes},
    report::Report,
    subject::Server,
};

const MEGABYTE: usize = 1_000_000;

/// How many answers at once, and how long each is in megabytes.
const CASES: [(usize, usize); 5] = [(1, 1), (1, 2), (1, 8), (1, 32), (16, 2)];

pub(super) async fn measure(arguments: &RunArguments, report: &mut Report) -> anyhow::Result<()> {
    for (turns, megabytes) in CASES {
        let [first, again] = peaks(arguments, turns, megabytes * MEGABYTE).await?;
        eprintln!(
            "Context: {turns} answers of {megabytes} MB at once: from {:.1} to {:.1} MB, then from {:.1} to {:.1} MB",
            first.before, first.most, again.before, again.most
        );
        let name =
            |what| format!("peak RSS, MB per turn above {what}: {turns} × {megabytes} MB at once");
        report.plain("Context", &name("idle"), first.growth() / turns as f64);
        report.plain("Context", &name("what the same before left"), again.growth() / turns as f64);
    }
    Ok(())
}

/// Resident megabytes before answers came, and at most meanwhile.
struct Peak {
    before: f64,
    most: f64,
}

impl Peak {
    fn growth(&self) -> f64 {
        self.most - self.before
    }
}

/// The first answers of a server fill caches, those after them show what answers cost.
async fn peaks(
    arguments: &RunArguments,
    turns: usize,
    answer_bytes: usize,
) -> anyhow::Result<[Peak; 2]> {
    let settings =
        ProviderArguments { answer_bytes: Some(answer_bytes), pause_ms: 0, quick_events: 0 };
    let provider = Provider::start(&settings).await?;
    let home = provider.home(arguments)?;
    let server = Server::start_skein(arguments, &home).await?;
    let seeds = 0..turns as u64;
    let mut talks = try_join_all(seeds.map(|seed| Talk::through(&server, seed))).await?;
    let first = peak(&server, &mut talks).await?;
    let again = peak(&server, &mut talks).await?;
    server.stop().await?;
    Ok([first, again])
}

async fn peak(server: &Server, talks: &mut [Talk]) -> anyhow::Result<Peak> {
    sleep(Duration::from_secs(1)).await;
    forget_peak(server.pid)?;
    let before = rss_megabytes(server.pid)?;
    try_join_all(talks.iter_mut().map(Talk::turn)).await?;
    Ok(Peak { before, most: peak_megabytes(server.pid)? })
}
