//! What Git ignores: untracked files that a `.gitignore` or `.git/info/exclude` names. A tracked file is not ignored,
//! so a work tree gives what a commit of it gives.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::{Git, GitError};

/// Larger lists of patterns are not read.
const MAX_PATTERNS_BYTES: u64 = 1024 * 1024;

/// Tracked files among the ignored that are known; further ones are left out.
const MAX_TRACKED: usize = 200_000;

/// Longer paths cannot be checked out anywhere.
const MAX_PATH_BYTES: u64 = 16 * 1024;

/// Judges the entries of a work tree in the order of a walk that goes down first.
pub(super) struct Ignored {
    root: PathBuf,
    git: Option<Git>,
    /// Relative to the root. None until the first entry that is ignored unless it is tracked.
    tracked: Option<BTreeSet<Vec<u8>>>,
    exclude: Gitignore,
    /// The directories from the root to the one that is being listed.
    levels: Vec<Level>,
}

struct Level {
    directory: PathBuf,
    patterns: Gitignore,
    /// Gone into for the tracked files in it only.
    is_ignored: bool,
}

impl Ignored {
    /// Without a Git, nothing is taken for tracked.
    pub(super) fn new(root: &Path, git: Option<Git>) -> Self {
        let exclude =
            exclude_file(root).map_or_else(Gitignore::empty, |file| patterns(root, &file));
        let levels = vec![Level::of(root, false)];
        Self { root: root.to_owned(), git, tracked: None, exclude, levels }
    }

    pub(super) fn is_ignored(&mut self, path: &Path, is_directory: bool) -> bool {
        while self.levels.len() > 1
            && self.levels.last().is_some_and(|level| Some(&*level.directory) != path.parent())
        {
            self.levels.pop();
        }
        let is_named = self.levels.last().is_some_and(|level| level.is_ignored)
            || self.is_named(path, is_directory);
        if is_named && !self.is_tracked(path, is_directory) {
            return true;
        }
        if is_directory {
            self.levels.push(Level::of(path, is_named));
        }
        false
    }

    /// The nearest list that says anything about it decides.
    fn is_named(&self, path: &Path, is_directory: bool) -> bool {
        let lists = self.levels.iter().rev().map(|level| &level.patterns);
        let mut said = lists.chain([&self.exclude]).map(|list| list.matched(path, is_directory));
        said.find(|said| !said.is_none()).is_some_and(|said| said.is_ignore())
    }

    /// Of a directory: whether something in it is.
    fn is_tracked(&mut self, path: &Path, is_directory: bool) -> bool {
        let Ok(relative) = path.strip_prefix(&self.root) else { return false };
        let mut relative = relative.as_os_str().as_bytes().to_vec();
        let git = self.git.as_ref();
        let tracked = self.tracked.get_or_insert_with(|| {
            // Then what is ignored stays so; the index can do without.
            git.and_then(|git| tracked(git).ok()).unwrap_or_default()
        });
        if !is_directory {
            return tracked.contains(&relative);
        }
        relative.push(b'/');
        let next = tracked.range(relative.clone()..).next();
        next.is_some_and(|next| next.starts_with(&relative))
    }
}

impl Level {
    fn of(directory: &Path, is_ignored: bool) -> Self {
        let patterns = patterns(directory, &directory.join(".gitignore"));
        Self { directory: directory.to_owned(), patterns, is_ignored }
    }
}

/// Links are not followed, as Git does not. A pattern that is not understood names nothing.
fn patterns(directory: &Path, file: &Path) -> Gitignore {
    let is_usable = file
        .symlink_metadata()
        .is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_PATTERNS_BYTES);
    if !is_usable {
        return Gitignore::empty();
    }
    let mut builder = GitignoreBuilder::new(directory);
    builder.add(file);
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// `.git` may be a file that names the directory, which may name another that all work trees share.
fn exclude_file(root: &Path) -> Option<PathBuf> {
    let mut directory = root.join(".git");
    if directory.symlink_metadata().ok()?.is_file() {
        let named = head(&directory)?;
        directory = root.join(named.strip_prefix("gitdir: ")?.trim_end());
        if let Some(shared) = head(&directory.join("commondir")) {
            directory = directory.join(shared.trim_end());
        }
    }
    Some(directory.join("info/exclude"))
}

fn head(file: &Path) -> Option<String> {
    let mut text = String::new();
    fs::File::open(file).ok()?.take(MAX_PATH_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The tracked files that would be ignored if they were not.
fn tracked(git: &Git) -> Result<BTreeSet<Vec<u8>>, GitError> {
    let list = ["ls-files", "-z", "--cached", "--ignored", "--exclude-standard"];
    let mut child = git.start(&list)?;
    let (stdin, stdout) = child.take_pipes().ok_or(GitError::Failed)?;
    drop(stdin);
    let mut stdout = BufReader::with_capacity(64 * 1024, stdout);
    let mut tracked = BTreeSet::new();
    while tracked.len() < MAX_TRACKED {
        let mut path = Vec::new();
        let read = (&mut stdout).take(MAX_PATH_BYTES).read_until(0, &mut path);
        if read.map_err(|_| GitError::Failed)? == 0 {
            break;
        }
        child.answered();
        path.pop();
        tracked.insert(path);
    }
    Ok(tracked)
}
