//! A running agent, seen from Skein.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout},
    sync::{oneshot, watch},
};

use super::{
    ConfineError, Confinement, Requirement, Support, bubblewrap,
    environment::Variables,
    message::{self, Ended, Failure, Plan, Report, Walls},
    places::Places,
    program::Program,
    supervisor::{identity, open_directory},
    support::Bubblewrap,
};

/// A cage is built in some milliseconds; this only bounds how long a broken one is waited for.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long one that failed may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Of what a cage that failed wrote to standard error.
const REASON_BYTES: u64 = 4_096;

/// An agent in its cage.
#[derive(Debug)]
pub struct Caged {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
    /// What could not be had, one sentence each.
    pub shortcomings: Vec<String>,
    /// The hold on the agent's processes. The pipes may be taken and this be kept apart.
    pub cage: Cage,
}

/// The hold on every process of an agent. Dropping it kills them.
#[derive(Debug)]
pub struct Cage {
    lifeline: Arc<UnixStream>,
    walls: Walls,
    supervisor: Option<OwnedFd>,
    /// Whether it was killed from here, so that nothing else has to be said about its end.
    killed: Arc<AtomicBool>,
    exit: watch::Receiver<Option<Exit>>,
}

/// How an agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// The cage was killed from outside, and everything in it; nobody knows how the agent itself ended.
    Unknown,
}

impl Caged {
    /// Asks the agent's processes to end (SIGTERM).
    pub fn terminate(&self) {
        self.cage.terminate();
    }

    /// Kills all of the agent's processes at once, those that detached themselves too.
    pub fn kill(&self) {
        self.cage.kill();
    }

    /// Waits until no process of the agent is left, and says how the agent itself ended.
    pub async fn exited(&self) -> Exit {
        self.cage.exited().await
    }
}

impl Cage {
    pub fn terminate(&self) {
        // When nobody is there to be told, the agent has ended.
        drop((&*self.lifeline).write_all(&[message::TERMINATE]));
    }

    pub fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
        drop(self.lifeline.shutdown(Shutdown::Write));
        if let Some(supervisor) = &self.supervisor {
            let signal = match self.walls {
                // It is the first process of its namespace, so all others die with it.
                Walls::Namespaces => Signal::KILL,
                // It has to do the killing, even if somebody stopped it.
                Walls::Bare => Signal::CONT,
            };
            pidfd_send_signal(supervisor, signal).ok();
        }
    }

    pub async fn exited(&self) -> Exit {
        let mut exit = self.exit.clone();
        let ended = exit.wait_for(Option::is_some).await;
        ended.ok().and_then(|ended| *ended).unwrap_or(Exit::Unknown)
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What to start, owned.
pub(super) struct Order {
    pub(super) command: Vec<String>,
    pub(super) workspace: PathBuf,
    pub(super) home: PathBuf,
    pub(super) env: Vec<(String, String)>,
}

/// An agent whose cage is being built.
pub(super) struct Starting {
    stdin: io::PipeWriter,
    ready: oneshot::Receiver<Result<Ready, ConfineError>>,
    cage: Cage,
    shortcomings: Vec<String>,
    requirement: Requirement,
}

/// What comes back from a cage that was built.
struct Ready {
    stdout: std::process::ChildStdout,
    stderr: std::process::ChildStderr,
    supervisor: Option<OwnedFd>,
    shortcomings: Vec<String>,
}

impl Starting {
    pub(super) async fn started(mut self) -> Result<Caged, ConfineError> {
        let ready = self.ready.await.map_err(io::Error::other)??;
        self.cage.supervisor = ready.supervisor;
        self.shortcomings.extend(ready.shortcomings);
        if self.requirement == Requirement::Require && !self.shortcomings.is_empty() {
            return Err(ConfineError::Unavailable { shortcomings: self.shortcomings });
        }
        let stdin = std::process::ChildStdin::from(OwnedFd::from(self.stdin));
        Ok(Caged {
            stdin: ChildStdin::from_std(stdin)?,
            stdout: ChildStdout::from_std(ready.stdout)?,
            stderr: ChildStderr::from_std(ready.stderr)?,
            shortcomings: self.shortcomings,
            cage: self.cage,
        })
    }
}

/// Looks everything up and starts the outermost program of the cage.
pub(super) fn start(confinement: &Confinement, order: Order) -> Result<Starting, ConfineError> {
    let support = Support::of(&confinement.launcher);
    let shortcomings = support.shortcomings(confinement);
    if confinement.requirement == Requirement::Require && !shortcomings.is_empty() {
        return Err(ConfineError::Unavailable { shortcomings });
    }
    let workspace = open_workspace(&order.workspace, &confinement.hidden)?;
    let home = make_home(&order.home)?;
    let variables = Variables::new(&home, order.env);
    let name = order.command.first().map(String::as_str).unwrap_or_default();
    let program = Program::find(name, variables.path(), &order.workspace)
        .ok_or_else(|| ConfineError::NotFound { program: name.to_owned() })?;
    let arguments = &order.command[1..];
    let places = Places::gather(confinement, &program, arguments, &home, &variables);

    let walls = support.walls();
    let (readable, writable) = match walls {
        Walls::Namespaces => (places.readable.iter().cloned().collect(), vec![home.clone()]),
        Walls::Bare => places.without_masks(),
    };
    let plan = Plan {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        program: program.path,
        arguments: arguments.to_vec(),
        workspace: order.workspace.clone(),
        identity: identity(&workspace)?,
        home,
        readable,
        writable,
        walls,
        network: confinement.network,
        limits: confinement.limits.clone(),
    };
    let command = command(confinement, &support, &places, &variables, &order.workspace)?;
    let (stdin, agent_stdin) = {
        let (reader, writer) = io::pipe()?;
        (writer, OwnedFd::from(reader))
    };
    let (lifeline, theirs) = UnixStream::pair()?;
    let lifeline = Arc::new(lifeline);
    let (exit, exits) = watch::channel(None);
    let (tell_ready, ready) = oneshot::channel();
    let killed = Arc::new(AtomicBool::new(false));
    let was_killed = Arc::clone(&killed);
    let cage =
        Cage { lifeline: Arc::clone(&lifeline), walls, supervisor: None, killed, exit: exits };
    let keeper =
        Keeper { lifeline, program: name.to_owned(), plan, handles: [agent_stdin, workspace] };
    thread::Builder::new().name("cage".to_owned()).spawn(move || {
        let ended = keeper.keep(command, theirs, tell_ready).unwrap_or_else(|| {
            match was_killed.load(Ordering::Relaxed) {
                true => Exit::Signal(Signal::KILL.as_raw()),
                false => Exit::Unknown,
            }
        });
        exit.send_replace(Some(ended));
    })?;
    let requirement = confinement.requirement;
    Ok(Starting { stdin, ready, cage, shortcomings, requirement })
}

/// The outermost program: bubblewrap around the supervisor, or the supervisor alone.
fn command(
    confinement: &Confinement,
    support: &Support,
    places: &Places,
    variables: &Variables,
    workspace: &Path,
) -> io::Result<Command> {
    let skein = confinement.launcher.skein.canonicalize()?;
    let mut command = match (&support.bubblewrap, &confinement.launcher.bubblewrap) {
        (Bubblewrap::Works { nesting, .. }, Some(bubblewrap)) => {
            let network = confinement.network;
            let mut command = Command::new(bubblewrap);
            command.args(bubblewrap::arguments(places, workspace, &skein, *nesting, network));
            command.arg("--").arg(&skein);
            command
        }
        _ => Command::new(&skein),
    };
    command.arg("__confine").env_clear().envs(variables.iter()).current_dir("/");
    Ok(command)
}

/// Opens the workspace and makes sure that no link led there.
fn open_workspace(path: &Path, hidden: &[PathBuf]) -> Result<OwnedFd, ConfineError> {
    let refuse = |reason: String| ConfineError::Workspace { path: path.to_owned(), reason };
    let workspace = open_directory(path).map_err(|error| refuse(error.to_string()))?;
    // What the kernel calls the directory that was opened.
    let real = rustix::fs::readlink(
        format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&workspace)),
        Vec::new(),
    );
    let real = real.map_err(io::Error::from)?;
    if real.as_bytes() != path.as_os_str().as_encoded_bytes() {
        return Err(refuse(format!("it is {} by now", real.to_string_lossy())));
    }
    let hidden = hidden.iter().filter_map(|place| place.canonicalize().ok());
    match hidden.into_iter().find(|place| place.starts_with(path)) {
        Some(place) => Err(refuse(format!("{} is in it", place.display()))),
        None => Ok(workspace),
    }
}

/// The real path of the agent's home, for its owner alone if it has to be made.
fn make_home(home: &Path) -> io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;

    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(home)?;
    home.canonicalize()
}

/// Stays with the outermost program until it has ended.
struct Keeper {
    lifeline: Arc<UnixStream>,
    program: String,
    plan: Plan,
    /// The agent's standard input and its workspace, until the supervisor has them.
    handles: [OwnedFd; 2],
}

impl Keeper {
    fn keep(
        self,
        mut command: Command,
        theirs: UnixStream,
        ready: oneshot::Sender<Result<Ready, ConfineError>>,
    ) -> Option<Exit> {
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                drop(ready.send(Err(error.into())));
                return None;
            }
        };
        // Holds the other end of the socket, whose closing is what is waited for below.
        drop(command);
        let lifeline = Arc::clone(&self.lifeline);
        let exit = match self.begin(&mut child) {
            Ok(begun) => {
                // Nobody waits any more: the hold was dropped, and with it the lifeline.
                drop(ready.send(Ok(begun)));
                end(&lifeline)
            }
            Err(error) => {
                drop(ready.send(Err(error)));
                None
            }
        };
        drop(child.wait());
        exit
    }

    /// Hands over the plan and waits until the agent runs.
    fn begin(self, child: &mut Child) -> Result<Ready, ConfineError> {
        let handles = self.handles.each_ref().map(AsFd::as_fd);
        let sent = message::send(&self.lifeline, &self.plan, &handles);
        self.lifeline.set_read_timeout(Some(START_TIMEOUT))?;
        let answer = sent.and_then(|()| message::receive::<Report>(&self.lifeline));
        self.lifeline.set_read_timeout(None)?;
        if !matches!(answer, Ok(Some((Report::Started { .. }, _)))) {
            drop(self.lifeline.shutdown(Shutdown::Both));
            end_of_failed(child)?;
        }
        match answer {
            Ok(Some((Report::Started { shortcomings }, mut handles))) => {
                let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take())
                else {
                    return Err(io::Error::other("the agent has no pipes").into());
                };
                Ok(Ready { stdout, stderr, supervisor: handles.pop(), shortcomings })
            }
            Ok(Some((Report::Failed(failure), _))) => Err(self.refusal(failure)),
            Ok(Some((Report::Exited(_), _))) => Err(cage_failed("it ended before it began")),
            Ok(None) => Err(cage_failed(said(child))),
            Err(error) => Err(cage_failed(format!("{error}; {}", said(child)))),
        }
    }

    fn refusal(self, failure: Failure) -> ConfineError {
        match failure {
            Failure::NotFound => ConfineError::NotFound { program: self.program },
            Failure::Workspace(reason) => {
                ConfineError::Workspace { path: self.plan.workspace, reason }
            }
            Failure::Cage(reason) => ConfineError::Cage { reason },
        }
    }
}

/// Waits for the supervisor's last word.
fn end(lifeline: &UnixStream) -> Option<Exit> {
    match message::receive::<Report>(lifeline) {
        Ok(Some((Report::Exited(Ended::Code(code)), _))) => Some(Exit::Code(code)),
        Ok(Some((Report::Exited(Ended::Signal(signal)), _))) => Some(Exit::Signal(signal)),
        _ => None,
    }
}

/// Lets a cage that failed end by itself, which it does when its lifeline is cut. Only one that hangs is killed:
/// bubblewrap leaves a process behind if it is killed at a bad moment.
fn end_of_failed(child: &mut Child) -> io::Result<()> {
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return Ok(()) };
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let patience = Timespec::try_from(END_TIMEOUT).map_err(io::Error::other)?;
    let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience))?;
    if ended == 0 { child.kill() } else { Ok(()) }
}

/// What a cage that failed wrote about it.
fn said(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(stderr) = &mut child.stderr {
        drop(stderr.take(REASON_BYTES).read_to_string(&mut text));
    }
    match text.trim() {
        "" => "it gave no reason".to_owned(),
        text => text.to_owned(),
    }
}

fn cage_failed(reason: impl Into<String>) -> ConfineError {
    ConfineError::Cage { reason: reason.into() }
}
