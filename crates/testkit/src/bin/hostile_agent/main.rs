//! An agent that wants out: tries every way it knows and reports, one JSON line per probe, what it got.
//!
//! hostile-agent TARGETS.json              every probe, each in a process of its own
//! hostile-agent TARGETS.json --one NAME   one probe
//! hostile-agent act BEHAVIOUR             misbehave; see `behaviours.rs`

mod behaviours;
mod files;
mod kernel;
mod network;
mod processes;

use std::{
    error::Error,
    fs,
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    process::{Command, ExitCode},
};

use serde::Deserialize;
use serde_json::json;

/// What is outside, made by whoever runs this.
#[derive(Debug, Deserialize)]
struct Targets {
    /// A directory beside the workspace. Its files hold the secret.
    outside: PathBuf,
    skein_home: PathBuf,
    /// Files with the secret in places that everybody shares.
    shared: Vec<PathBuf>,
    /// Somebody's home, with `.ssh` and `.bashrc`.
    other_home: PathBuf,
    stream_socket: PathBuf,
    datagram_socket: PathBuf,
    abstract_socket: String,
    tcp: SocketAddr,
    udp: SocketAddr,
    skein_pid: i32,
    victim_pid: i32,
    secret: String,
    /// Part of the names of all that is left behind.
    marker: String,
}

/// What was got hold of, or why nothing was.
type Outcome = Result<String, Box<dyn Error>>;
type Probe = (&'static str, fn(&Targets) -> Outcome);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["act", behaviour, rest @ ..] => behaviours::act(behaviour, rest),
        [targets] => run_all(targets),
        [targets, "--one", name] => run_one(targets, name),
        _ => Err("usage: hostile-agent TARGETS.json [--one NAME]".into()),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            drop(writeln!(io::stderr(), "hostile-agent: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn probes() -> Vec<Probe> {
    [files::PROBES, processes::PROBES, kernel::PROBES, network::PROBES].concat()
}

fn run_all(targets: &str) -> Result<ExitCode, Box<dyn Error>> {
    for (name, _) in probes() {
        let ran = Command::new(std::env::current_exe()?).args([targets, "--one", name]).output();
        let line = match ran {
            Ok(output) if !output.stdout.is_empty() => output.stdout,
            Ok(output) => line(name, Err(format!("ended with {}", output.status).into())),
            Err(error) => line(name, Err(error.into())),
        };
        io::stdout().write_all(&line)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_one(targets: &str, name: &str) -> Result<ExitCode, Box<dyn Error>> {
    let targets: Targets = serde_json::from_slice(&fs::read(targets)?)?;
    let probes = probes();
    let (_, probe) = probes.iter().find(|(known, _)| *known == name).ok_or("no such probe")?;
    let line = line(name, probe(&targets));
    io::stdout().write_all(&line)?;
    Ok(ExitCode::SUCCESS)
}

fn line(name: &str, outcome: Outcome) -> Vec<u8> {
    let (gained, detail) = match outcome {
        Ok(detail) => (true, detail),
        Err(error) => (false, error.to_string()),
    };
    format!("{}\n", json!({"probe": name, "gained": gained, "detail": detail})).into_bytes()
}

impl Targets {
    /// The secret, if this is it.
    fn expect_secret(&self, found: impl AsRef<[u8]>) -> Outcome {
        let found = String::from_utf8_lossy(found.as_ref()).into_owned();
        match found.contains(&self.secret) {
            true => Ok(format!("read {} bytes", found.len())),
            false => Err(format!("{} bytes of something else", found.len()).into()),
        }
    }

    fn read(&self, path: impl Into<PathBuf>) -> Outcome {
        self.expect_secret(fs::read(path.into())?)
    }
}

/// The result of a line of Perl, which can make any system call. It prints what it got.
fn perl(script: &str, arguments: &[&str]) -> Result<String, Box<dyn Error>> {
    let output = Command::new("perl").arg("-e").arg(script).args(arguments).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into()),
    }
}
