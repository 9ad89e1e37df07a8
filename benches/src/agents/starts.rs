//! What an agent costs to start and to keep.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
    time::sleep,
};

use super::desk::{Desk, Walls, scripted_agent};
use crate::{
    arguments::RunArguments,
    process::{descendants, pss_megabytes, rss_megabytes},
    report::{Report, milliseconds},
    turns::quantile,
};

/// Agents that live at once when memory is measured.
const LIVE: usize = 20;

/// Long enough for what was just started or ended to have settled.
const SETTLE: Duration = Duration::from_secs(1);

pub(super) async fn measure(arguments: &RunArguments, report: &mut Report) -> anyhow::Result<()> {
    let (mut alone, mut caged, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1..=arguments.rounds {
        let first = alone.len();
        for _ in 0..arguments.agent_starts {
            alone.push(start_alone(arguments).await?);
        }
        caged.extend(starts(arguments, Walls::All).await?);
        bare.extend(starts(arguments, Walls::Bare).await?);
        let p50 = |all: &[f64]| quantile(&all[first..], 0.5);
        eprintln!(
            "Agents starts, round {number}: {:.1} ms with bubblewrap, {:.1} ms without, {:.1} ms the agent alone (p50)",
            p50(&caged),
            p50(&bare),
            p50(&alone),
        );
    }
    for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
        let alone = quantile(&alone, part);
        for (walls, waits) in [("with", &caged), ("without", &bare)] {
            let name = format!(
                "ms from the 201 to an active session, {walls} bubblewrap, {name} (limit: the agent alone)"
            );
            report.costs("Agents", &name, quantile(waits, part), alone);
        }
    }
    memory(arguments, report).await
}

/// Milliseconds from each 201 to the agent that can be prompted, one after the other.
async fn starts(arguments: &RunArguments, walls: Walls) -> anyhow::Result<Vec<f64>> {
    let mut desk = Desk::start(arguments, walls, 1).await?;
    let mut waits = Vec::new();
    // The first one also finds out what this machine offers.
    for number in 0..=arguments.agent_starts {
        let (agent, wait) = desk.open().await?;
        if number > 0 {
            waits.push(milliseconds(wait));
        }
        desk.cancel(&agent.session).await?;
        while !descendants(desk.server.pid)?.is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
    }
    desk.stop().await?;
    Ok(waits)
}

/// Milliseconds from the start of the agent, without Skein, to its open session.
async fn start_alone(arguments: &RunArguments) -> anyhow::Result<f64> {
    let tree = tempfile::Builder::new().prefix("work-").tempdir_in(&arguments.data)?;
    let mut command = Command::new(scripted_agent(arguments)?);
    command.current_dir(tree.path()).env("HOME", tree.path()).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let began = Instant::now();
    let mut child = command.spawn().context("the agent cannot start")?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    let mut stdout = BufReader::new(child.stdout.take().context("no stdout")?);
    let requests = [
        ("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}})),
        ("session/new", json!({"cwd": tree.path(), "mcpServers": []})),
    ];
    for (id, (method, params)) in requests.into_iter().enumerate() {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        stdin.write_all(format!("{line}\n").as_bytes()).await?;
        let mut answer = String::new();
        stdout.read_line(&mut answer).await?;
        ensure!(answer.contains("\"result\""), "{method}: {answer}");
    }
    let wait = milliseconds(began.elapsed());
    child.kill().await?;
    Ok(wait)
}

/// What is resident of Skein, and of whatever it starts around an agent, for each agent that lives.
async fn memory(arguments: &RunArguments, report: &mut Report) -> anyhow::Result<()> {
    let mut desk = Desk::start(arguments, Walls::All, LIVE).await?;
    let (first, _) = desk.open().await?;
    desk.cancel(&first.session).await?;
    sleep(SETTLE).await;
    let before = rss_megabytes(desk.server.pid)?;
    let mut agents = Vec::new();
    for _ in 0..LIVE {
        agents.push(desk.open().await?.0);
    }
    sleep(SETTLE).await;
    let server = (rss_megabytes(desk.server.pid)? - before) / LIVE as f64;
    let program = scripted_agent(arguments)?;
    let mut around = 0.0;
    for pid in descendants(desk.server.pid)? {
        let is_agent = std::fs::read_link(format!("/proc/{pid}/exe"))? == program;
        around += if is_agent { 0.0 } else { pss_megabytes(pid)? };
    }
    report.plain("Agents", "MB of Skein for each of 20 live agents", server);
    report.plain("Agents", "MB of bubblewrap and supervisor for each, PSS", around / LIVE as f64);
    drop(agents);
    desk.stop().await
}
