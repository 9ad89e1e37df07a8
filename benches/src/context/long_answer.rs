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
        let (idle, peak) = peak(arguments, turns, megabytes * MEGABYTE).await?;
        eprintln!(
            "Context: {turns} answers of {megabytes} MB at once: idle {idle:.1} MB, peak {peak:.1} MB"
        );
        let name = format!("peak RSS above idle, MB per turn: {turns} × {megabytes} MB at once");
        report.plain("Context", &name, (peak - idle) / turns as f64);
    }
    Ok(())
}

/// Resident megabytes before, and at most while the answers came.
async fn peak(
    arguments: &RunArguments,
    turns: usize,
    answer_bytes: usize,
) -> anyhow::Result<(f64, f64)> {
    let settings = ProviderArguments { answer_bytes: Some(answer_bytes), pause_ms: 0 };
    let provider = Provider::start(&settings).await?;
    let home = provider.home(arguments)?;
    let server = Server::start_skein(arguments, &home).await?;
    let seeds = 0..turns as u64;
    let mut talks = try_join_all(seeds.map(|seed| Talk::through(&server, seed))).await?;
    sleep(Duration::from_secs(1)).await;
    forget_peak(server.pid)?;
    let idle = rss_megabytes(server.pid)?;
    try_join_all(talks.iter_mut().map(Talk::turn)).await?;
    let peak = peak_megabytes(server.pid)?;
    server.stop().await?;
    Ok((idle, peak))
}
