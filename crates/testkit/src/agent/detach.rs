//! Processes that get away from their parent: in a session of their own, and orphaned.

use std::{
    env,
    io::{self, Write as _},
    os::fd::AsFd as _,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::process::setsid;

use super::options::Options;

/// What the descendants are called with instead of flags.
const LEAVE: &str = "__leave";
const STAY: &str = "__stay";
/// Long enough to be found, and not for ever should nobody look.
const LIFETIME: Duration = Duration::from_secs(3600);

/// Whether descendants keep the pipes of the agent open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pipes {
    Closed,
    Held,
}

/// Starts processes that outlive the agent, and gives back their pids as the agent sees them.
pub(super) fn detach(options: &Options, count: usize, pipes: Pipes) -> io::Result<Vec<u32>> {
    (0..count).map(|_| detach_one(options, pipes)).collect()
}

/// The part of a descendant: `None` for the agent itself.
pub fn linger(arguments: &[String]) -> Option<i32> {
    let (role, rest) = arguments.split_first()?;
    match role.as_str() {
        LEAVE => Some(leave(rest).map_or(1, |()| 0)),
        STAY => {
            std::thread::sleep(LIFETIME);
            Some(0)
        }
        _ => None,
    }
}

fn detach_one(options: &Options, pipes: Pipes) -> io::Result<u32> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(LEAVE).args(options.tag.as_slice()).stdout(Stdio::piped());
    match pipes {
        Pipes::Closed => command.stdin(Stdio::null()).stderr(Stdio::null()),
        // Its standard output is for its pid, so the agent's own is held as its input.
        Pipes::Held => {
            let held = io::stdout().as_fd().try_clone_to_owned()?;
            command.stdin(held).stderr(Stdio::inherit())
        }
    };
    let output = command.output()?;
    let pid = String::from_utf8_lossy(&output.stdout);
    pid.trim()
        .parse()
        .map_err(|_| io::Error::other(format!("it could not leave: {}", output.status)))
}

/// Leaves the session of the agent, starts who stays, and ends, which makes that one an orphan.
fn leave(tag: &[String]) -> io::Result<()> {
    setsid()?;
    let mut command = Command::new(env::current_exe()?);
    let child = command.arg(STAY).args(tag).stdout(Stdio::null()).spawn()?;
    writeln!(io::stdout(), "{}", child.id())
}
