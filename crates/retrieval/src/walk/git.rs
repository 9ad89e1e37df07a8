//! Git as a subprocess that can do nothing but answer.
//!
//! A repository may come from anybody, and its settings can name programs. So Git runs with those overruled, with
//! none of the caller's variables, and is ended when it says nothing for long or the run is stopped.

use std::{
    ffi::OsString,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use tokio_util::sync::CancellationToken;

/// How long Git may say nothing.
const SILENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Enough for a commit's id.
const MAX_SHORT_ANSWER_BYTES: u64 = 4_096;

const SETTINGS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.untrackedCache", "false"),
    ("core.pager", "cat"),
    ("core.sshCommand", "false"),
    ("submodule.recurse", "false"),
    ("safe.bareRepository", "explicit"),
];

const VARIABLES: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("PATH", "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // Objects that are missing stay missing: fetching them would run what the remote's settings name.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
];

/// Why Git could not answer.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("{} is not a Git work tree", .0.display())]
    NotARepository(PathBuf),
    #[error("there is no commit {0:?} in the repository")]
    UnknownCommit(String),
    /// E.g. because its settings or its format are not understood.
    #[error("git cannot read the repository in {}", .0.display())]
    Unreadable(PathBuf),
    #[error("git cannot be run")]
    Unusable(#[source] std::io::Error),
    #[error("git failed or was stopped")]
    Failed,
    #[error("git gave an answer that is not understood")]
    NotUnderstood,
}

/// Asks about one work tree.
#[derive(Debug, Clone)]
pub struct Git {
    root: PathBuf,
    stop: CancellationToken,
}

impl Git {
    /// `root` must be the top of a work tree. Decided here and not by Git, because `core.worktree` can name any place.
    pub fn at(root: &Path, stop: CancellationToken) -> Result<Self, GitError> {
        match root.join(".git").symlink_metadata() {
            // Git compares real paths.
            Ok(_) => {
                Ok(Self { root: root.canonicalize().unwrap_or_else(|_| root.to_owned()), stop })
            }
            Err(_) => Err(GitError::NotARepository(root.to_owned())),
        }
    }

    /// The commit that the work tree is on, if Git knows one. Its files can be read without.
    pub fn head(&self) -> Result<Option<String>, GitError> {
        match self.verified("HEAD^{commit}") {
            Err(GitError::Unreadable(_)) => Ok(None),
            known => known,
        }
    }

    /// The full id of a commit.
    pub fn commit(&self, name: &str) -> Result<String, GitError> {
        let unknown = || GitError::UnknownCommit(name.chars().take(64).collect());
        let is_id =
            (4..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_id {
            return Err(unknown());
        }
        self.verified(&format!("{name}^{{commit}}"))?.ok_or_else(unknown)
    }

    fn verified(&self, revision: &str) -> Result<Option<String>, GitError> {
        let mut child =
            self.start(&["rev-parse", "--verify", "--quiet", "--end-of-options", revision])?;
        let mut answer = String::new();
        if let Some(stdout) = child.stdout() {
            let read = stdout.take(MAX_SHORT_ANSWER_BYTES).read_to_string(&mut answer);
            read.map_err(|_| GitError::NotUnderstood)?;
        }
        let id = answer.trim();
        let is_id = matches!(id.len(), 40 | 64) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        match child.end()?.code() {
            Some(0) if is_id => Ok(Some(id.to_owned())),
            Some(0) => Err(GitError::NotUnderstood),
            // What `--quiet` says of a revision that is not there; everything else is about the repository.
            Some(1) => Ok(None),
            Some(_) => Err(GitError::Unreadable(self.root.clone())),
            None => Err(GitError::Failed),
        }
    }

    pub(super) fn start(&self, arguments: &[&str]) -> Result<GitChild, GitError> {
        let mut command = Command::new("git");
        command.env_clear().envs(VARIABLES.iter().copied());
        command.args(["--no-pager", "--no-optional-locks", "--literal-pathspecs"]);
        for (key, value) in SETTINGS {
            command.arg("-c").arg(format!("{key}={value}"));
        }
        // Whoever registered this work tree vouches for it, whoever owns it. For no other.
        let mut safe = OsString::from("safe.directory=");
        safe.push(&self.root);
        command.arg("-c").arg(safe);
        let child = command
            .args(arguments)
            .current_dir(&self.root)
            // Beats `core.worktree`. Without `GIT_DIR`, so that Git still checks whose directory it has found.
            .env("GIT_WORK_TREE", &self.root)
            // Git must not look for another repository further up when this one is broken.
            .env("GIT_CEILING_DIRECTORIES", self.root.parent().unwrap_or(&self.root))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(GitError::Unusable)?;
        GitChild::guard(child, self.stop.clone())
    }
}

/// A running Git that is ended with its handle, by a stop, or by silence.
pub(super) struct GitChild {
    child: Arc<Mutex<Child>>,
    watch: Arc<Watch>,
    thread: Option<JoinHandle<()>>,
    stdout: Option<ChildStdout>,
    stdin: Option<ChildStdin>,
}

#[derive(Default)]
struct Watch {
    is_over: AtomicBool,
    /// Grows with every answer.
    answers: AtomicU64,
}

impl GitChild {
    fn guard(mut child: Child, stop: CancellationToken) -> Result<Self, GitError> {
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let child = Arc::new(Mutex::new(child));
        let watch = Arc::new(Watch::default());
        let (watched, watching) = (Arc::clone(&child), Arc::clone(&watch));
        let thread = std::thread::Builder::new()
            .name("skein-git-watch".to_owned())
            .spawn(move || watching.run(&watched, &stop))
            .map_err(GitError::Unusable)?;
        Ok(Self { child, watch, thread: Some(thread), stdout, stdin })
    }

    pub(super) fn stdout(&mut self) -> Option<&mut ChildStdout> {
        self.stdout.as_mut()
    }

    /// Both ends, for questions and answers in turn.
    pub(super) fn take_pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        self.stdin.take().zip(self.stdout.take())
    }

    /// Git lives as long as it answers.
    pub(super) fn answered(&self) {
        self.watch.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for the end, which must be a good one.
    pub(super) fn finish(self) -> Result<(), GitError> {
        if self.end()?.success() { Ok(()) } else { Err(GitError::Failed) }
    }

    fn end(mut self) -> Result<ExitStatus, GitError> {
        drop((self.stdin.take(), self.stdout.take()));
        loop {
            let status = lock(&self.child).try_wait().map_err(GitError::Unusable)?;
            match status {
                Some(status) => return Ok(status),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

impl Drop for GitChild {
    fn drop(&mut self) {
        self.watch.is_over.store(true, Ordering::Release);
        let mut child = lock(&self.child);
        let _ = child.kill();
        let _ = child.wait();
        drop(child);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Watch {
    fn run(&self, child: &Mutex<Child>, stop: &CancellationToken) {
        let (mut seen, mut silence) = (0, Duration::ZERO);
        while !self.is_over.load(Ordering::Acquire) {
            std::thread::park_timeout(LOOK_EVERY);
            let answers = self.answers.load(Ordering::Relaxed);
            silence = if answers == seen { silence + LOOK_EVERY } else { Duration::ZERO };
            seen = answers;
            if stop.is_cancelled() || silence >= SILENCE {
                let _ = lock(child).kill();
                return;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
