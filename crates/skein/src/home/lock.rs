//! One process at a time works on a home. The lock file says which, so that clients find it.
//!
//! The kernel drops the lock when its holder ends, however it ends; what is left in the file then
//! means nothing, because it is only believed while the lock is held.

use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use serde::{Deserialize, Serialize};

/// Longer than any address that is written here.
const MAX_BYTES: u64 = 4_096;

/// The process that works on a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub(crate) struct Holder {
    /// Absent for the moment between taking the lock and writing this.
    pub(crate) pid: Option<u32>,
    /// Where it answers, once it is a server that is ready.
    pub(crate) url: Option<String>,
}

/// Whether somebody works on a home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LockState {
    Free,
    Held(Holder),
}

/// Held until it is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct HomeLock {
    file: File,
}

impl HomeLock {
    /// Tells clients where this server answers.
    pub(crate) fn announce(&self, url: &str) -> io::Result<()> {
        self.write(&Holder { pid: Some(std::process::id()), url: Some(url.to_owned()) })
    }

    fn write(&self, holder: &Holder) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(serde_json::to_string(holder)?.as_bytes(), 0)
    }
}

impl Drop for HomeLock {
    fn drop(&mut self) {
        // Only spares the next holder's clients a look at a stale address.
        drop(self.file.set_len(0));
    }
}

pub(super) fn try_lock(path: &Path) -> io::Result<Result<HomeLock, Holder>> {
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            let lock = HomeLock { file };
            // The lock holds without it; others only do not know whose it is.
            drop(lock.write(&Holder { pid: Some(std::process::id()), url: None }));
            Ok(Ok(lock))
        }
        Err(Errno::WOULDBLOCK) => Ok(Err(read(&mut file)?)),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn state(path: &Path) -> io::Result<LockState> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(LockState::Free),
        Err(error) => return Err(error),
    };
    // Shared, so that two who look do not take each other for a holder.
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(LockState::Free),
        Err(Errno::WOULDBLOCK) => Ok(LockState::Held(read(&mut file)?)),
        Err(error) => Err(error.into()),
    }
}

/// What is only half written counts as not written yet.
fn read(file: &mut File) -> io::Result<Holder> {
    let mut text = String::new();
    match file.take(MAX_BYTES).read_to_string(&mut text) {
        Ok(_) => Ok(serde_json::from_str(&text).unwrap_or_default()),
        Err(error) if error.kind() == ErrorKind::InvalidData => Ok(Holder::default()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn one_holds_the_lock_and_others_see_who_and_where() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("lock");

        assert_eq!(state(&path).unwrap(), LockState::Free);
        let lock = try_lock(&path).unwrap().unwrap();
        let mut holder = Holder { pid: Some(std::process::id()), url: None };
        assert_eq!(state(&path).unwrap(), LockState::Held(holder.clone()));

        lock.announce("http://127.0.0.1:1").unwrap();
        holder.url = Some("http://127.0.0.1:1".to_owned());
        assert_eq!(state(&path).unwrap(), LockState::Held(holder.clone()));
        assert_eq!(try_lock(&path).unwrap().unwrap_err(), holder);

        drop(lock);
        assert_eq!(state(&path).unwrap(), LockState::Free);
        try_lock(&path).unwrap().unwrap();
    }

    #[test]
    fn what_a_killed_holder_left_is_not_believed() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("lock");
        std::fs::write(&path, r#"{"pid":1,"url":"http://127.0.0.1:1"}"#).unwrap();

        assert_eq!(state(&path).unwrap(), LockState::Free);
    }
}
