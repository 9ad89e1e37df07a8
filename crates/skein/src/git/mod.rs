//! What Git says about a work tree.
//!
//! A work tree may come from anybody, and its `.git/config` can name programs. So Git runs with every such
//! setting overruled, with none of the caller's `GIT_*` variables, for a limited time and with limited words.

mod disarm;

use std::{
    ffi::OsStr,
    io,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Command,
    time::timeout,
};

use crate::config::Environment;
use disarm::Disarmed;

/// For everything that is asked of one work tree.
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_STDOUT_BYTES: u64 = 16 * 1024 * 1024;
const MAX_STDERR_BYTES: u64 = 64 * 1024;

/// What Git needs of the caller's environment to find the caller's own settings.
const KEPT_VARIABLES: &[&str] = &["HOME", "XDG_CONFIG_HOME", "SUDO_UID"];

/// Why Git could not tell.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitError {
    #[error("git is not installed")]
    Missing,
    #[error("git is older than 2.31 and cannot be kept from running what the work tree names")]
    TooOld,
    #[error("git did not answer within {} s", TIMEOUT.as_secs())]
    Timeout,
    #[error("git said more than {MAX_STDOUT_BYTES} bytes")]
    TooMuch,
    /// In its own words.
    #[error("git refused: {0}")]
    Refused(String),
    #[error("git cannot be run: {0}")]
    Unusable(#[source] io::Error),
}

/// The root of the work tree around a directory. Decided here and not by Git, because `core.worktree` can name
/// any other place.
pub(crate) fn work_tree(start: &Path) -> Option<&Path> {
    start.ancestors().find(|directory| directory.join(".git").symlink_metadata().is_ok())
}

/// The tracked files that differ from the last commit, staged or not, relative to the root. Those that were
/// deleted are among them.
pub(crate) async fn modified(
    environment: &Environment,
    root: &Path,
) -> Result<Vec<PathBuf>, GitError> {
    let git = Git::find(environment, root)?;
    let told = timeout(TIMEOUT, git.modified()).await;
    told.unwrap_or(Err(GitError::Timeout))
}

struct Git<'a> {
    program: PathBuf,
    environment: &'a Environment,
    root: &'a Path,
}

impl<'a> Git<'a> {
    /// Relative entries of `PATH` could lead into the work tree.
    fn find(environment: &'a Environment, root: &'a Path) -> Result<Self, GitError> {
        let path = environment.get("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
        let directories = path.split(':').map(Path::new).filter(|entry| entry.is_absolute());
        let program = directories.map(|entry| entry.join("git")).find(|file| is_program(file));
        Ok(Self { program: program.ok_or(GitError::Missing)?, environment, root })
    }

    async fn modified(&self) -> Result<Vec<PathBuf>, GitError> {
        let mut disarmed = Disarmed::new();
        let listed = self.run(&["config", "--list", "--name-only", "-z"], &disarmed).await?;
        if !disarmed.is_obeyed(&listed) {
            return Err(GitError::TooOld);
        }
        disarmed.disarm_filters(&listed);
        let status = [
            "status",
            "--porcelain=v1",
            "-z",
            "--untracked-files=no",
            "--no-renames",
            // Otherwise Git would start itself in each of them, under its settings.
            "--ignore-submodules=all",
        ];
        Ok(paths(&self.run(&status, &disarmed).await?))
    }

    async fn run(&self, arguments: &[&str], disarmed: &Disarmed) -> Result<Vec<u8>, GitError> {
        let mut command = Command::new(&self.program);
        command.env_clear();
        for name in KEPT_VARIABLES {
            command.envs(self.environment.get(name).map(|value| (name, value)));
        }
        command
            .args(["--no-pager", "--no-optional-locks"])
            .args(arguments)
            .current_dir(self.root)
            .envs(disarmed.variables())
            // Beats `core.worktree`. Without `GIT_DIR`, so that Git still checks whose directory this is.
            .env("GIT_WORK_TREE", self.root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(GitError::Unusable)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (stdout, stderr) =
            tokio::try_join!(read(stdout, MAX_STDOUT_BYTES), read(stderr, MAX_STDERR_BYTES))
                .map_err(GitError::Unusable)?;
        if stdout.len() as u64 > MAX_STDOUT_BYTES {
            return Err(GitError::TooMuch);
        }
        let status = child.wait().await.map_err(GitError::Unusable)?;
        match status.success() {
            true => Ok(stdout),
            false => Err(GitError::Refused(reason(&stderr))),
        }
    }
}

/// One byte more than the limit, at most.
async fn read(pipe: Option<impl AsyncRead + Unpin>, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(limit + 1).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

fn is_program(file: &Path) -> bool {
    let is_executable =
        |meta: std::fs::Metadata| meta.is_file() && meta.permissions().mode() & 0o111 != 0;
    file.metadata().is_ok_and(is_executable)
}

/// Two letters, a space, and a path, each ended by NUL.
fn paths(status: &[u8]) -> Vec<PathBuf> {
    let entries = status.split(|byte| *byte == 0).filter_map(|entry| entry.get(3..));
    entries.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()
}

fn reason(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let first = text.lines().find_map(|line| line.strip_prefix("fatal: "));
    first.or(text.lines().next()).unwrap_or("it gave no reason").to_owned()
}
