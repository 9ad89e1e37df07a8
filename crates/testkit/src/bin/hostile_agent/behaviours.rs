//! Ways to misbehave without wanting out: processes that detach, ignore signals, or eat what they can.

use std::{
    error::Error,
    fs::File,
    io::{self, Read, Write},
    process::{Command, ExitCode, Stdio},
};

use rustix::process::{getpid, setsid};

/// Behaves. Process ids go to standard output, a line each, before anything is waited for.
pub(super) fn act(behaviour: &str, rest: &[&str]) -> Result<ExitCode, Box<dyn Error>> {
    match behaviour {
        // A family: children that detach and have children of their own, all deaf to SIGTERM.
        "scatter" => scatter(rest),
        "linger" => linger(rest),
        "churn" => churn(rest),
        "remember" => remember(rest),
        "open" => open_files(),
        "spin" => spin(),
        "count" => count(),
        _ => Err("no such behaviour".into()),
    }
}

fn itself() -> io::Result<Command> {
    Ok(Command::new(std::env::current_exe()?))
}

fn say(text: impl std::fmt::Display) -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(format!("{text}\n").as_bytes())?;
    stdout.flush()
}

/// Starts `rest[0]` lingering families and stays until its standard input ends, or for ever with `stay`.
fn scatter(rest: &[&str]) -> Result<ExitCode, Box<dyn Error>> {
    let families: usize = rest.first().ok_or("how many?")?.parse()?;
    let mut children = Vec::new();
    for _ in 0..families {
        let mut child = itself()?;
        child.args(["act", "linger", "2"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = child.spawn()?;
        let mut lines = String::new();
        if let Some(stdout) = &mut child.stdout {
            stdout.read_to_string(&mut lines)?;
        }
        io::stdout().write_all(lines.as_bytes())?;
        children.push(child);
    }
    say("ready")?;
    match rest.get(1) {
        Some(&"stay") => stay(),
        Some(&"exit") => Ok(ExitCode::from(3)),
        _ => {
            io::stdin().read_to_end(&mut Vec::new())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// In a session of its own, deaf to SIGTERM, and so are its descendants, each the child of one that may have ended.
fn linger(rest: &[&str]) -> Result<ExitCode, Box<dyn Error>> {
    setsid().ok();
    let generation: u32 = rest.first().ok_or("which generation?")?.parse()?;
    say(getpid())?;
    if generation > 0 {
        let next = (generation - 1).to_string();
        let mut child = itself()?;
        child.args(["act", "linger", &next]).stdin(Stdio::null()).stdout(Stdio::inherit());
        child.spawn()?;
    }
    // The one in the middle leaves its child to whoever takes it.
    if generation == 1 {
        return Ok(ExitCode::SUCCESS);
    }
    deafen()
}

/// Becomes a shell that ignores what can be ignored, with its output closed so that nobody waits for it.
fn deafen() -> Result<ExitCode, Box<dyn Error>> {
    use std::os::unix::process::CommandExt;

    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' TERM INT HUP; while :; do sleep 1000 & wait; done"]);
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Err(shell.exec().into())
}

/// Is somebody else every moment: starts itself again and ends.
fn churn(rest: &[&str]) -> Result<ExitCode, Box<dyn Error>> {
    if rest.first() != Some(&"on") {
        say("ready")?;
        itself()?.args(["act", "churn", "on"]).stdout(Stdio::null()).spawn()?;
        return stay();
    }
    itself()?.args(["act", "churn", "on"]).spawn()?;
    Ok(ExitCode::SUCCESS)
}

/// Takes memory, a mebibyte at a time, and says how much it has got.
fn remember(rest: &[&str]) -> Result<ExitCode, Box<dyn Error>> {
    let most: usize = rest.first().ok_or("how much?")?.parse()?;
    let mut kept: Vec<Vec<u8>> = Vec::new();
    while kept.len() < most {
        let mut part = Vec::new();
        if part.try_reserve_exact(1 << 20).is_err() {
            break;
        }
        part.resize(1 << 20, 1);
        kept.push(part);
    }
    say(kept.len())?;
    Ok(ExitCode::SUCCESS)
}

fn open_files() -> Result<ExitCode, Box<dyn Error>> {
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    say(files.len())?;
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::empty_loop, reason = "to use the processor is the point")]
fn spin() -> Result<ExitCode, Box<dyn Error>> {
    loop {}
}

/// How many bytes came in.
fn count() -> Result<ExitCode, Box<dyn Error>> {
    say(io::copy(&mut io::stdin(), &mut io::sink())?)?;
    Ok(ExitCode::SUCCESS)
}

fn stay() -> Result<ExitCode, Box<dyn Error>> {
    loop {
        std::thread::park();
    }
}
