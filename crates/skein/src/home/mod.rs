//! The directory that holds everything of one Skein: settings, token, lock and data.

mod atomic;
mod lock;

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use etcetera::BaseStrategy;
use tokio::time::Instant;

use crate::failure::{Exit, Failure};
pub(crate) use atomic::write_private;
pub(crate) use lock::{Holder, HomeLock, LockState};

/// How long to wait for a process that works on the home and is no server (yet).
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_RETRY: Duration = Duration::from_millis(20);

/// Where things are. Making one touches nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Home {
    path: PathBuf,
}

/// Who works on a home after asking for its lock.
#[derive(Debug)]
pub(crate) enum Locked {
    Mine(HomeLock),
    Server { pid: Option<u32>, url: String },
}

impl Home {
    /// The named directory, or the one in the user's data directory.
    pub(crate) fn locate(named: Option<&Path>) -> Result<Self, Failure> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => {
                let base = etcetera::choose_base_strategy().map_err(|error| {
                    Failure::new(Exit::Usage, "no home directory was found")
                        .because(error)
                        .hint("name a directory with --home or SKEIN_HOME")
                })?;
                base.data_dir().join("skein")
            }
        };
        let absolute = std::path::absolute(&path).map_err(|error| {
            Failure::new(Exit::Usage, format!("{path:?} is not a usable path")).because(error)
        })?;
        Ok(Self { path: absolute })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn token_file(&self) -> PathBuf {
        self.path.join("token")
    }

    /// Passages of repositories and documents; can be made again.
    pub(crate) fn index_file(&self) -> PathBuf {
        self.path.join("index.db")
    }

    /// Work trees that the operator vouched for, one path per line.
    pub(crate) fn trusted_file(&self) -> PathBuf {
        self.path.join("trusted")
    }

    /// Where agents have their homes, one for each session.
    pub(crate) fn agent_homes(&self) -> PathBuf {
        self.path.join("agents")
    }

    pub(crate) fn database_file(&self) -> PathBuf {
        self.path.join("skein.db")
    }

    fn lock_file(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// Makes the directory, for its owner alone, and closes it to others if it was open.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        let refused = |error| {
            Failure::new(Exit::Unavailable, format!("cannot use {}", self.path.display()))
                .because(error)
                .hint("name another directory with --home or SKEIN_HOME")
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path).map_err(refused)?;
        let mode = fs::metadata(&self.path).map_err(refused)?.permissions().mode();
        if mode & 0o077 != 0 {
            let closed = fs::Permissions::from_mode(mode & 0o700);
            fs::set_permissions(&self.path, closed).map_err(refused)?;
        }
        Ok(())
    }

    /// The token that was left here, if there is one.
    pub(crate) fn read_token(&self) -> io::Result<Option<String>> {
        match fs::read_to_string(self.token_file()) {
            Ok(text) => Ok(Some(text.trim().to_owned()).filter(|token| !token.is_empty())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Leaves a token here for the owner of the directory.
    pub(crate) fn write_token(&self, secret: &str) -> io::Result<()> {
        atomic::write_private(&self.token_file(), format!("{secret}\n").as_bytes())
    }

    /// Who holds the lock right now.
    pub(crate) fn lock_state(&self) -> io::Result<LockState> {
        lock::state(&self.lock_file())
    }

    /// The lock, or the server that has it. Waits for processes that work on the home for a moment,
    /// as commands without a server do, and for servers that are about to be ready.
    pub(crate) async fn lock_or_server(&self) -> Result<Locked, Failure> {
        self.prepare()?;
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            let holder = match lock::try_lock(&self.lock_file()) {
                Ok(Ok(lock)) => return Ok(Locked::Mine(lock)),
                Ok(Err(holder)) => holder,
                Err(error) => {
                    let message = format!("cannot lock {}", self.path.display());
                    return Err(Failure::new(Exit::Unavailable, message).because(error));
                }
            };
            match holder {
                Holder { pid, url: Some(url) } => return Ok(Locked::Server { pid, url }),
                holder if Instant::now() >= deadline => return Err(busy(&holder)),
                _ => tokio::time::sleep(LOCK_RETRY).await,
            }
        }
    }

    /// The lock; a server that has it is in the way.
    pub(crate) async fn lock_alone(&self) -> Result<HomeLock, Failure> {
        match self.lock_or_server().await? {
            Locked::Mine(lock) => Ok(lock),
            Locked::Server { pid, url } => {
                let pid = pid.map_or_else(String::new, |pid| format!(", process {pid}"));
                let place = self.path.display();
                let message = format!("a server works on {place} already: {url}{pid}");
                Err(Failure::new(Exit::Conflict, message)
                    .hint("use that one, stop it first, or name another home with --home"))
            }
        }
    }
}

fn busy(holder: &Holder) -> Failure {
    let who =
        holder.pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
    Failure::new(Exit::Unavailable, format!("{who} works on this home and is not done"))
        .hint("try again when it has ended, or name another home with --home")
}
