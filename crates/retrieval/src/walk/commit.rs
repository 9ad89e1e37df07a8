//! The tree of one commit, read from Git's objects.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{ChildStdin, ChildStdout},
    sync::Arc,
};

use super::{
    Content, Found, Git, GitError, MAX_FILE_BYTES, Skipped, SkippedCounts, Source, WalkError,
    check, git::GitChild, is_secret_name,
};

/// Longer paths cannot be checked out anywhere.
const MAX_ENTRY_BYTES: u64 = 16 * 1024;

/// The files of a commit.
pub struct CommitTree {
    git: Git,
    commit: String,
    skipped: Arc<SkippedCounts>,
}

impl CommitTree {
    /// `commit` is a full id, as [`Git::commit`] gives it.
    pub fn new(git: Git, commit: String, skipped: Arc<SkippedCounts>) -> Self {
        Self { git, commit, skipped }
    }

    /// Gives every file to `found`, until that returns false.
    pub fn walk(&self, mut found: impl FnMut(Found) -> bool) -> Result<(), WalkError> {
        let mut child =
            self.git.start(&["ls-tree", "-r", "-z", "--long", "--full-tree", &self.commit])?;
        let Some((stdin, stdout)) = child.take_pipes() else { return Err(GitError::Failed.into()) };
        drop(stdin);
        let mut stdout = BufReader::with_capacity(64 * 1024, stdout);
        let mut hidden = HiddenOnce::default();
        let mut entry = Vec::new();
        loop {
            entry.clear();
            let limited = (&mut stdout).take(MAX_ENTRY_BYTES).read_until(0, &mut entry);
            if limited.map_err(|_| GitError::Failed)? == 0 {
                break;
            }
            child.answered();
            if entry.pop() != Some(0) {
                return Err(GitError::NotUnderstood.into());
            }
            if let Some(file) = self.entry(&entry, &mut hidden)?
                && !found(file)
            {
                return Err(WalkError::Stopped);
            }
        }
        Ok(child.finish()?)
    }

    /// `<mode> SP <type> SP <object> SP+ <size> TAB <path>`
    fn entry(&self, entry: &[u8], hidden: &mut HiddenOnce) -> Result<Option<Found>, WalkError> {
        let tab = memchr::memchr(b'\t', entry).ok_or(GitError::NotUnderstood)?;
        let head = std::str::from_utf8(&entry[..tab]).map_err(|_| GitError::NotUnderstood)?;
        let mut words = head.split_ascii_whitespace();
        let mut word = || words.next().ok_or(GitError::NotUnderstood);
        let (mode, kind, oid, size) = (word()?, word()?, word()?, word()?);
        let judged = judge(mode, kind, size, &entry[tab + 1..], hidden);
        Ok(match judged {
            Ok(Some(path)) => Some(Found { path, source: Source::Blob { oid: oid.to_owned() } }),
            Ok(None) => None,
            Err(reason) => {
                self.skipped.add(reason);
                None
            }
        })
    }
}

/// None for what was counted already, with the directory it is in.
fn judge(
    mode: &str,
    kind: &str,
    size: &str,
    path: &[u8],
    hidden: &mut HiddenOnce,
) -> Result<Option<String>, Skipped> {
    let path = std::str::from_utf8(path).map_err(|_| Skipped::NotUtf8)?;
    let name = path.rsplit('/').next().unwrap_or(path);
    if let Some(at) = hidden_part(path) {
        let is_file = path.len() == at;
        let is_new = hidden.is_new(&path[..at]);
        return match (is_new, is_file && is_secret_name(name)) {
            (false, _) => Ok(None),
            (true, true) => Err(Skipped::Secret),
            (true, false) => Err(Skipped::Hidden),
        };
    }
    match (kind, mode) {
        ("commit", _) => return Err(Skipped::NestedRepository),
        ("blob", "120000") => return Err(Skipped::Symlink),
        ("blob", _) => {}
        _ => return Err(Skipped::NotAFile),
    }
    if is_secret_name(name) {
        return Err(Skipped::Secret);
    }
    let size: u64 = size.parse().map_err(|_| Skipped::Unreadable)?;
    if size > MAX_FILE_BYTES { Err(Skipped::TooLarge) } else { Ok(Some(path.to_owned())) }
}

/// The end of the first part of a path that begins with a dot.
fn hidden_part(path: &str) -> Option<usize> {
    let mut start = 0;
    for part in path.split('/') {
        if part.starts_with('.') {
            return Some(start + part.len());
        }
        start += part.len() + 1;
    }
    None
}

/// Git lists the files of a directory one after the other.
#[derive(Default)]
struct HiddenOnce(String);

impl HiddenOnce {
    fn is_new(&mut self, part: &str) -> bool {
        let is_new = self.0 != part;
        if is_new {
            part.clone_into(&mut self.0);
        }
        is_new
    }
}

/// Reads blobs, one after the other, from one Git.
pub struct BlobReader {
    child: GitChild,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl BlobReader {
    pub fn new(git: &Git) -> Result<Self, WalkError> {
        let mut child = git.start(&["cat-file", "--batch"])?;
        let (stdin, stdout) = child.take_pipes().ok_or(GitError::Failed)?;
        Ok(Self { child, stdin, stdout: BufReader::with_capacity(64 * 1024, stdout) })
    }

    /// The outer error ends the walk, the inner one leaves the file out.
    pub fn read(&mut self, oid: &str) -> Result<Result<Content, Skipped>, WalkError> {
        let failed = |_| GitError::Failed;
        self.stdin.write_all(format!("{oid}\n").as_bytes()).map_err(failed)?;
        self.stdin.flush().map_err(failed)?;
        let mut head = String::new();
        let read = (&mut self.stdout).take(MAX_ENTRY_BYTES).read_line(&mut head).map_err(failed)?;
        self.child.answered();
        if read == 0 {
            return Err(GitError::Failed.into());
        }
        // `<object> SP <type> SP <size> LF <content> LF`, or `<object> SP missing LF`.
        let words: Vec<&str> = head.split_ascii_whitespace().collect();
        let size: u64 = match words.as_slice() {
            [_, "missing"] => return Ok(Err(Skipped::Unreadable)),
            [_, "blob", size] => size.parse().map_err(|_| GitError::NotUnderstood)?,
            _ => return Err(GitError::NotUnderstood.into()),
        };
        if size > MAX_FILE_BYTES {
            return Err(GitError::NotUnderstood.into());
        }
        let mut bytes = Vec::new();
        (&mut self.stdout).take(size + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 != size + 1 || bytes.pop() != Some(b'\n') {
            return Err(GitError::Failed.into());
        }
        Ok(check(bytes))
    }
}
