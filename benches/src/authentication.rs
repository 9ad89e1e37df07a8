//! What it costs to know who is calling: a request that needs a token beside one that needs none.

use std::time::Instant;

use crate::{
    arguments::RunArguments,
    client::Connection,
    process::Cpu,
    report::{Report, Target, median, milliseconds},
    subject::{Home, Server},
    turns::quantile,
};

/// Answered from memory, without a token.
const OPEN: &str = "/livez";

/// Answered from memory too, once the caller is known, counted and within their limits.
const KNOWN: &str = "/api/whoami";

const ROUNDS: usize = 20;
const REQUESTS: usize = 1_000;

pub(crate) async fn measure(arguments: &RunArguments, report: &mut Report) -> anyhow::Result<()> {
    let home = Home::new(arguments)?;
    let server = Server::start_skein(arguments, &home).await?;
    let mut connection = server.connect().await?;
    let (mut waits, mut costs) = (Vec::new(), Vec::new());
    read(&mut connection, &server, KNOWN).await?;
    for _ in 0..ROUNDS {
        let open = read(&mut connection, &server, OPEN).await?;
        let known = read(&mut connection, &server, KNOWN).await?;
        waits.push((known.0 - open.0) * 1e3);
        costs.push((known.1 - open.1) * 1e3);
    }
    drop(connection);
    server.stop().await?;
    let target = Target::AtMost(50.0);
    report.judged(
        "Auth",
        "a known caller beside an unknown one, p50 µs",
        (median(&waits), None),
        target,
    );
    report.judged("Auth", "the same in µs of CPU", (median(&costs), None), target);
    Ok(())
}

/// The median latency, and the server's CPU time of one request, in milliseconds.
async fn read(
    connection: &mut Connection,
    server: &Server,
    path: &str,
) -> anyhow::Result<(f64, f64)> {
    let mut latencies = Vec::with_capacity(REQUESTS);
    let before = Cpu::of(server.pid)?;
    for _ in 0..REQUESTS {
        let began = Instant::now();
        connection.get(path).await?;
        latencies.push(milliseconds(began.elapsed()));
    }
    let used = Cpu::of(server.pid)?.since(&before);
    Ok((quantile(&latencies, 0.5), milliseconds(used) / REQUESTS as f64))
}
