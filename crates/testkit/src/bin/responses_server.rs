//! The double of the Responses API as a program, for tests that are not written in Rust.
//!
//! ```text
//! responses-server [--listen 127.0.0.1:0] [--key KEY | --no-key] [--chain server|none|reject] [--script FILE.json]
//! ```
//!
//! Prints one line of JSON when it is ready, `{"url": "http://127.0.0.1:4711/v1", "key": "…"}`, and ends when its standard input
//! does, or on SIGTERM.

use std::{
    error::Error,
    io::{self, Write},
};

use serde_json::json;
use skein_testkit::responses::{Chain, ResponsesServer, Settings};
use tokio::signal::unix::{SignalKind, signal};

struct Options {
    settings: Settings,
    script: Option<String>,
}

#[tokio::main]
async fn main() {
    let code = match run().await {
        Ok(()) => 0,
        Err(error) => {
            // Nobody is left to tell if even this fails.
            let _written = writeln!(io::stderr(), "error: {error}");
            1
        }
    };
    // Returning would wait for the read of the standard input that may still be under way.
    std::process::exit(code)
}

async fn run() -> Result<(), Box<dyn Error>> {
    let options = options(std::env::args().skip(1))?;
    let server = ResponsesServer::start_with(options.settings).await?;
    if let Some(path) = options.script {
        server.load(serde_json::from_slice(&tokio::fs::read(&path).await?)?)?;
    }
    let mut terminate = signal(SignalKind::terminate())?;

    let ready = json!({"url": server.base_url(), "key": server.key()});
    writeln!(io::stdout(), "{ready}")?;

    tokio::select! {
        () = end_of_input() => {}
        _signal = terminate.recv() => {}
    }
    server.stop().await;
    Ok(())
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
    let mut options = Options { settings: Settings::default(), script: None };
    while let Some(name) = arguments.next() {
        if name == "--no-key" {
            options.settings.key = None;
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--listen" => options.settings.listen = value.parse()?,
            "--key" => options.settings.key = Some(value),
            "--script" => options.script = Some(value),
            "--chain" => options.settings.chain = chain(&value)?,
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    Ok(options)
}

fn chain(name: &str) -> Result<Chain, String> {
    match name {
        "server" => Ok(Chain::Server),
        "none" => Ok(Chain::NoneIgnoring),
        "reject" => Ok(Chain::NoneRejecting),
        _ => Err(format!("--chain is server, none or reject, not {name}")),
    }
}

async fn end_of_input() {
    // An input that cannot be read has ended too.
    let _copied = tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink())).await;
}
