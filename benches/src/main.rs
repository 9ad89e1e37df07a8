//! Measures Skein over HTTP, beside a program that writes the same rows and does nothing else.
//!
//! `scripts/bench` builds both and runs everything. `docs/benchmarks.md` describes the workloads.
#![expect(clippy::print_stdout, reason = "the results are this program's output")]
#![expect(clippy::print_stderr, reason = "progress is told while it measures")]

mod agents;
mod arguments;
mod authentication;
mod client;
mod context;
mod large;
mod limit;
mod lists;
mod postgres;
mod process;
mod report;
mod same_rows;
mod sse;
mod stream;
mod subject;
mod text;
mod turns;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;

use crate::{
    arguments::{Arguments, Command, RunArguments, Workload},
    report::Report,
};

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run(arguments) => run(*arguments),
        Command::Limit(arguments) => limit::serve(&arguments),
        Command::Provider(arguments) => context::serve(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// One thread: the client shares the machine with the server and must not crowd it out.
fn run(mut arguments: RunArguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the client's runtime cannot start")?;
    std::fs::create_dir_all(&arguments.data).context("the data folder cannot be made")?;
    runtime.block_on(async {
        let template = subject::empty_store(&arguments).await?;
        arguments.empty_store = template.database()?;
        measure(&arguments).await
    })
}

async fn measure(arguments: &RunArguments) -> anyhow::Result<()> {
    let mut report = Report::new();
    if arguments.wants(Workload::W1) {
        turns::one_session(arguments, &mut report).await?;
    }
    if arguments.wants(Workload::W2) {
        turns::many_sessions(arguments, &mut report).await?;
    }
    if arguments.wants_any(&[Workload::Long, Workload::W4, Workload::W7]) {
        large::measure(arguments, &mut report).await?;
    }
    if arguments.wants(Workload::W9) {
        stream::measure(arguments, &mut report).await?;
    }
    if arguments.wants(Workload::Postgres) {
        postgres::measure(arguments, &mut report).await?;
    }
    if arguments.wants(Workload::Lists) {
        lists::measure(arguments, &mut report).await?;
    }
    if arguments.wants(Workload::Auth) {
        authentication::measure(arguments, &mut report).await?;
    }
    if arguments.wants(Workload::Context) {
        context::measure(arguments, &mut report).await?;
    }
    if arguments.wants(Workload::Agents) {
        agents::measure(arguments, &mut report).await?;
    }
    println!("{}", report.to_markdown());
    Ok(())
}
