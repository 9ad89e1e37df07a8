//! The `skein` program: a durable session server for AI agents, and its command line.

mod cli;
mod commands;
mod config;
mod failure;
mod git;
mod home;
mod output;
mod providers;
mod retrieval;
mod store;
mod system;
mod telemetry;
mod transport;
mod wiring;

use std::process::ExitCode;

use clap::Parser;

use crate::{cli::Cli, failure::Exit};

fn main() -> ExitCode {
    // Everything that is written here is for its owner alone.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    // Fails only when there is one already, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::note(&format!("error: the async runtime cannot start: {error}"));
            return ExitCode::from(Exit::Unavailable as u8);
        }
    };
    let exit = match runtime.block_on(commands::run(cli)) {
        Ok(()) => Exit::Success,
        Err(failure) => {
            if failure.exit != Exit::Success && failure.exit != Exit::Interrupted {
                output::failure(&failure);
            }
            failure.exit
        }
    };
    // Nothing that still runs may hold up the end: all that was promised is durable.
    runtime.shutdown_background();
    ExitCode::from(exit as u8)
}
