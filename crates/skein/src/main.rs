//! The `skein` program: a durable session server for AI agents, and its command line.

mod acp;
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
mod versions;
mod wiring;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    cli::{Cli, Command},
    failure::Exit,
};

fn main() -> ExitCode {
    let cli = Cli::parse();
    // It confines the one thread that it has, so none may be started before.
    if let Some(Command::Confine { probe }) = cli.command {
        return commands::confine::run(probe);
    }
    // Everything that is written here is for its owner alone.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    // Fails only when there is one already, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
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
