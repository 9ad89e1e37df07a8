//! `skein __confine`: restricts itself, starts the agent, and sees to it that nothing outlives it.

use std::{
    fmt::Display,
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    process::{Command, ExitCode, Stdio},
    thread,
};

use rustix::{
    fs::{Mode, OFlags},
    process::{
        DumpableBehavior, Pid, PidfdFlags, Signal, WaitStatus, getpid, kill_process, pidfd_open,
        set_child_subreaper, set_dumpable_behavior, setsid, umask,
    },
};
use tokio::{
    io::AsyncReadExt,
    signal::unix::{SignalKind, signal},
};

use super::{
    environment, landlock,
    message::{self, Ended, Failure, Plan, Report, Walls},
    privileges, syscalls,
    tree::{self, Tree},
};

/// The exit code that says: it was the cage that failed, not the agent.
pub const CAGE_FAILED: u8 = 125;
/// Before anything that the supervisor itself has to say on standard error.
const PREFIX: &str = "skein confinement: ";
/// Files of the agent are as open as files usually are; its home is closed by its own mode.
const UMASK: u32 = 0o022;
/// When memory runs out, agents are killed before Skein.
const FIRST_TO_GO: &str = "300";

/// Does everything that `skein __confine` is for. Nothing may run in this process before it, and nothing after.
pub fn main() -> ExitCode {
    let code = control().and_then(|control| serve(&control));
    code.unwrap_or_else(|error| {
        complain(error);
        ExitCode::from(CAGE_FAILED)
    })
}

/// Standard error is the agent's too. Skein keeps the last words in it.
fn complain(reason: impl Display) {
    drop(io::Write::write_all(&mut io::stderr(), format!("{PREFIX}{reason}\n").as_bytes()));
}

/// The socket to Skein, which is standard input.
fn control() -> io::Result<UnixStream> {
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

fn serve(control: &UnixStream) -> io::Result<ExitCode> {
    // Whoever reads this process's memory could give orders in its name.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    close_fds::set_fds_cloexec(3, &[]);
    let Some((plan, handles)) = message::receive::<Plan>(control)? else {
        return Err(io::Error::other("nobody said what to confine"));
    };
    match prepare(&plan, handles).and_then(|cage| cage.start(&plan)) {
        Ok((agent, mut tree, shortcomings)) => {
            // From here on nothing may end this before the agent has ended.
            let told = tell_started(control, shortcomings);
            let ended = told.and_then(|()| watch(control, agent, &mut tree)).unwrap_or_default();
            let ended = end_all(agent, ended, plan.walls, &mut tree);
            // Skein may be gone.
            drop(message::send(control, &Report::Exited(ended), &[]));
            Ok(ExitCode::from(match ended {
                Ended::Code(code) => code as u8,
                Ended::Signal(signal) => (128 + signal) as u8,
            }))
        }
        Err(failure) => {
            message::send(control, &Report::Failed(failure), &[])?;
            Ok(ExitCode::from(CAGE_FAILED))
        }
    }
}

/// Everything that is needed to start the agent, after this process has given up what it could.
struct Cage {
    stdin: OwnedFd,
    rules: Option<::landlock::RulesetCreated>,
    tree: Tree,
    shortcomings: Vec<String>,
}

fn prepare(plan: &Plan, handles: Vec<OwnedFd>) -> Result<Cage, Failure> {
    let [stdin, workspace] = <[OwnedFd; 2]>::try_from(handles)
        .map_err(|handles| cage(format!("{} handles instead of 2", handles.len())))?;
    if plan.version != env!("CARGO_PKG_VERSION") {
        return Err(cage("skein was replaced while it ran; restart the server".to_owned()));
    }
    let workspace = enter(plan, workspace)?;
    let mut shortcomings = Vec::new();
    // Under bubblewrap this is a session of its own already.
    setsid().ok();
    umask(Mode::from_raw_mode(UMASK));
    drop(fs::write("/proc/self/oom_score_adj", FIRST_TO_GO));
    let rules = match landlock::rules(plan, &workspace) {
        Ok(rules) => Some(rules),
        Err(error) => {
            shortcomings.push(format!("Landlock refused its rules: {error}"));
            None
        }
    };
    let tree = Tree::open().map_err(|error| cage(format!("/proc: {error}")))?;
    give_up(plan, &rules).map_err(|error| cage(error.to_string()))?;
    // Only now, so that whatever the agent once put in the way of it leads nowhere.
    let temporary = plan.home.join(environment::TEMPORARY);
    fs::create_dir_all(&temporary)
        .map_err(|error| cage(format!("{}: {error}", temporary.display())))?;
    Ok(Cage { stdin, rules, tree, shortcomings })
}

/// Restricts the supervisor itself. It has one thread yet, so this binds all there will be.
fn give_up(plan: &Plan, rules: &Option<::landlock::RulesetCreated>) -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    privileges::limit(&plan.limits, plan.walls)?;
    privileges::give_up()?;
    match rules {
        Some(rules) => landlock::restrict(rules.try_clone()?),
        None => Ok(()),
    }
}

/// Makes the workspace this process's directory: by handle, or, behind mounts, by a name that must lead to the same.
fn enter(plan: &Plan, outside: OwnedFd) -> Result<OwnedFd, Failure> {
    let workspace = match plan.walls {
        Walls::Bare => outside,
        Walls::Namespaces => {
            // The way out over this handle must be closed before anything else happens.
            drop(outside);
            open_directory(&plan.workspace)
                .map_err(|error| Failure::Workspace(error.to_string()))?
        }
    };
    let found = identity(&workspace).map_err(|error| Failure::Workspace(error.to_string()))?;
    if found != plan.identity {
        return Err(Failure::Workspace("another directory took its place".to_owned()));
    }
    rustix::process::fchdir(&workspace).map_err(|error| Failure::Workspace(error.to_string()))?;
    Ok(workspace)
}

impl Cage {
    /// Starts the agent from a thread that is restricted once more: what the agent may do to processes with its own
    /// restrictions, it may not do to the supervisor.
    fn start(self, plan: &Plan) -> Result<(Pid, Tree, Vec<String>), Failure> {
        let Self { stdin, rules, tree, mut shortcomings } = self;
        let filters = syscalls::filters(plan.walls, plan.network);
        let mut agent = Command::new(&plan.program);
        agent.args(&plan.arguments).stdin(Stdio::from(stdin));
        // bubblewrap leaves the name of its own directory there.
        agent.env("PWD", &plan.workspace);
        let starting = thread::spawn(move || {
            if let Some(rules) = rules {
                landlock::restrict(rules)?;
            }
            let filtered = filters.and_then(|filters| syscalls::apply(&filters));
            agent.spawn().map(|child| (child.id(), filtered))
        });
        let started =
            starting.join().map_err(|_| cage("the starting thread panicked".to_owned()))?;
        let (id, filtered) = started.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::NotFound,
            _ => cage(format!("{}: {error}", plan.program.display())),
        })?;
        if let Err(error) = filtered {
            shortcomings.push(format!("system calls cannot be filtered: {error}"));
        }
        let agent = i32::try_from(id).ok().and_then(Pid::from_raw);
        let agent = agent.ok_or_else(|| cage("the agent has no process id".to_owned()))?;
        Ok((agent, tree, shortcomings))
    }
}

fn tell_started(control: &UnixStream, shortcomings: Vec<String>) -> io::Result<()> {
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    message::send(control, &Report::Started { shortcomings }, &[own.as_fd()])
}

/// Waits for the agent to end, or for Skein to hang up.
fn watch(control: &UnixStream, agent: Pid, tree: &mut Tree) -> io::Result<Option<Ended>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(wait_for_end(control.try_clone()?, agent, tree))
}

/// Ends everything that is left, and says how the agent ended.
fn end_all(agent: Pid, mut ended: Option<Ended>, walls: Walls, tree: &mut Tree) -> Ended {
    let mut note = |pid: Pid, status: WaitStatus| {
        if pid == agent {
            ended = ended.or_else(|| end_of(status));
        }
    };
    match walls {
        Walls::Bare => {
            if let Err(error) = tree.kill_all(&mut note) {
                complain(format!("the agent's processes cannot be found: {error}"));
            }
        }
        // The kernel ends the rest with this process, however fast it forks.
        Walls::Namespaces => {
            kill_process(agent, Signal::KILL).ok();
            tree::reap(&mut note);
        }
    }
    ended.unwrap_or(Ended::Signal(Signal::KILL.as_raw()))
}

/// `None` when Skein hung up first.
async fn wait_for_end(
    control: UnixStream,
    agent: Pid,
    tree: &mut Tree,
) -> io::Result<Option<Ended>> {
    control.set_nonblocking(true)?;
    let mut control = tokio::net::UnixStream::from_std(control)?;
    let mut children = signal(SignalKind::child())?;
    let mut terminations =
        [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    let [Ok(terminate), Ok(interrupt), Ok(hangup)] = &mut terminations else {
        return Err(io::Error::other("signals cannot be received"));
    };
    let mut ended = None;
    loop {
        // A child may have ended before its signal could be received.
        tree::reap(&mut |pid, status| {
            if pid == agent {
                ended = end_of(status);
            }
        });
        if ended.is_some() {
            return Ok(ended);
        }
        tokio::select! {
            _ = children.recv() => continue,
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
            command = control.read_u8() => match command {
                Ok(message::TERMINATE) => {}
                Ok(_) | Err(_) => return Ok(None),
            },
        }
        if let Err(error) = tree.signal_all(Signal::TERM) {
            complain(format!("the agent's processes cannot be told to end: {error}"));
        }
    }
}

fn end_of(status: WaitStatus) -> Option<Ended> {
    let code = status.exit_status().map(Ended::Code);
    code.or_else(|| status.terminating_signal().map(Ended::Signal))
}

pub(super) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

pub(super) fn identity(directory: impl AsFd) -> io::Result<(u64, u64)> {
    let stat = rustix::fs::fstat(directory)?;
    Ok((stat.st_dev, stat.st_ino))
}

fn cage(reason: String) -> Failure {
    Failure::Cage(reason)
}
