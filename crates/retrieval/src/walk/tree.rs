//! The work tree as it is.

use std::{
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use cap_std::{
    ambient_authority,
    fs::{Dir, OpenOptions, OpenOptionsExt},
};
use ignore::{DirEntry, WalkBuilder};

use super::{
    Content, Found, Git, MAX_FILE_BYTES, Skipped, SkippedCounts, Source, WalkError, check,
    ignored::Ignored, is_secret_name,
};

/// What the file system says about a file: as long as it stays the same, so does the content, unless the file was
/// changed in the same tick of the file system's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub size: u64,
    pub mtime_ns: i64,
    /// Programs cannot set it, so a file that was changed and given its old time back shows.
    pub ctime_ns: i64,
    pub inode: u64,
}

impl Stat {
    fn of(meta: &std::fs::Metadata) -> Self {
        let nanos =
            |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        Self {
            size: meta.len(),
            mtime_ns: nanos(meta.mtime(), meta.mtime_nsec()),
            ctime_ns: nanos(meta.ctime(), meta.ctime_nsec()),
            inode: meta.ino(),
        }
    }
}

/// The files below a directory that Git does not ignore.
pub struct WorkTree {
    root: PathBuf,
    git: Option<Git>,
    skipped: Arc<SkippedCounts>,
}

impl WorkTree {
    pub fn new(root: impl Into<PathBuf>, skipped: Arc<SkippedCounts>) -> Self {
        Self { root: root.into(), git: None, skipped }
    }

    /// Git knows which files are tracked; those are never ignored.
    pub fn tracked_by(self, git: Git) -> Self {
        Self { git: Some(git), ..self }
    }

    /// Gives every file to `found`, until that returns false.
    pub fn walk(&self, mut found: impl FnMut(Found) -> bool) -> Result<(), WalkError> {
        std::fs::read_dir(&self.root).map_err(|error| WalkError::Root(self.root.clone(), error))?;
        for entry in self.walker() {
            let is_wanted = match entry.map(|entry| self.file(&entry)) {
                Ok(Some(Ok(file))) => found(file),
                Ok(Some(Err(reason))) => {
                    self.skipped.add(reason);
                    true
                }
                Ok(None) => true,
                Err(_) => {
                    self.skipped.add(Skipped::Unreadable);
                    true
                }
            };
            if !is_wanted {
                return Err(WalkError::Stopped);
            }
        }
        Ok(())
    }

    /// Settings of the machine do not count: two machines index the same files.
    fn walker(&self) -> ignore::Walk {
        let skipped = Arc::clone(&self.skipped);
        let ignored = Mutex::new(Ignored::new(&self.root, self.git.clone()));
        let mut builder = WalkBuilder::new(&self.root);
        builder
            .standard_filters(false)
            .follow_links(false)
            .filter_entry(move |entry| is_wanted(entry, &ignored, &skipped));
        builder.build()
    }

    /// None for directories.
    fn file(&self, entry: &DirEntry) -> Option<Result<Found, Skipped>> {
        let kind = entry.file_type()?;
        if kind.is_dir() {
            return None;
        }
        Some(self.regular_file(entry, kind))
    }

    fn regular_file(&self, entry: &DirEntry, kind: std::fs::FileType) -> Result<Found, Skipped> {
        if kind.is_symlink() {
            return Err(Skipped::Symlink);
        }
        if !kind.is_file() {
            return Err(Skipped::NotAFile);
        }
        let relative = entry.path().strip_prefix(&self.root).map_err(|_| Skipped::Unreadable)?;
        let path = relative.to_str().ok_or(Skipped::NotUtf8)?.to_owned();
        let name = path.rsplit('/').next().unwrap_or(&path);
        if is_secret_name(name) {
            return Err(Skipped::Secret);
        }
        let meta = entry.path().symlink_metadata().map_err(|_| Skipped::Unreadable)?;
        if meta.len() > MAX_FILE_BYTES {
            return Err(Skipped::TooLarge);
        }
        Ok(Found { path, source: Source::File(Stat::of(&meta)) })
    }
}

/// Hidden and ignored entries are counted once each, a directory as one.
fn is_wanted(entry: &DirEntry, ignored: &Mutex<Ignored>, skipped: &SkippedCounts) -> bool {
    if entry.depth() == 0 {
        return true;
    }
    let name = entry.file_name().to_string_lossy();
    let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
    if name == ".git" {
        return false;
    }
    if name.starts_with('.') {
        let is_secret = !is_directory && is_secret_name(&name);
        skipped.add(if is_secret { Skipped::Secret } else { Skipped::Hidden });
        return false;
    }
    let mut ignored = ignored.lock().unwrap_or_else(PoisonError::into_inner);
    if ignored.is_ignored(entry.path(), is_directory) {
        skipped.add(Skipped::Ignored);
        return false;
    }
    if is_directory && entry.path().join(".git").symlink_metadata().is_ok() {
        skipped.add(Skipped::NestedRepository);
        return false;
    }
    true
}

/// Reads files below a root and nothing else, whatever links are put in the way meanwhile.
pub struct FileReader {
    root: Dir,
}

impl FileReader {
    pub fn new(root: &Path) -> Result<Self, WalkError> {
        let root = Dir::open_ambient_dir(root, ambient_authority())
            .map_err(|error| WalkError::Root(root.to_owned(), error))?;
        Ok(Self { root })
    }

    /// The content with what the file system said before it was read.
    pub fn read(&self, path: &str) -> Result<(Stat, Content), Skipped> {
        let mut options = OpenOptions::new();
        // A pipe that took the file's place must not make us wait.
        options.read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK);
        let file = self.root.open_with(path, &options).map_err(|_| Skipped::Unreadable)?;
        let file = file.into_std();
        let meta = file.metadata().map_err(|_| Skipped::Unreadable)?;
        if !meta.is_file() {
            return Err(Skipped::NotAFile);
        }
        if meta.len() > MAX_FILE_BYTES {
            return Err(Skipped::TooLarge);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0) + 1);
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|_| Skipped::Unreadable)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(Skipped::TooLarge);
        }
        Ok((Stat::of(&meta), check(bytes)?))
    }
}

const O_NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
const O_NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;
