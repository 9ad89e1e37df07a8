//! The files that go along with an instruction: those that the person names, and those that Git says are modified.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use cap_std::fs::{Dir, File};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use skein_core::{
    model::Sha256Hash,
    policy::active_files::{MAX_FILE_BYTES, normal_path},
};

use super::{
    Context,
    place::{Place, PlaceKind},
};
use crate::{
    failure::{Exit, Failure},
    git, output,
};

/// As many as a server takes.
const MAX_FILES: usize = 200;
/// Nobody wants to wait until more is read for its hash alone.
const MAX_READ_BYTES: u64 = 256 * 1024 * 1024;

/// Whether Git is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    Modified,
    NamedOnly,
}

/// As the API wants them. Files that cannot go along are told to the person.
pub(super) async fn gather(
    context: &Context,
    place: &Place,
    named: &[PathBuf],
    search: Search,
) -> Result<Vec<Value>, Failure> {
    let root = place.open()?;
    let mut wanted: Vec<Wanted> = Vec::new();
    for file in named {
        let path = place.relative(file)?;
        if wanted.iter().all(|other| other.path != path) {
            wanted.push(Wanted { path, origin: Origin::Named });
        }
    }
    let is_work_tree = place.kind == PlaceKind::WorkTree;
    if search == Search::Modified && is_work_tree {
        add_modified(context, place, &root, &mut wanted).await;
    }
    if wanted.len() > MAX_FILES {
        let left_out = wanted.len() - MAX_FILES;
        warn(&format!("{left_out} modified files are left out: at most {MAX_FILES} go along"));
        wanted.truncate(MAX_FILES);
    }
    // Whatever was touched last, the same files are always in the same order.
    let first_modified = wanted.iter().position(|file| file.origin == Origin::Modified);
    if let Some(first) = first_modified {
        wanted[first..].sort_by(|a, b| a.path.cmp(&b.path));
    }
    let read = wanted.iter().map(|file| file.read(&root));
    read.filter_map(Result::transpose).collect()
}

/// After those that are there already, most recently changed first.
async fn add_modified(context: &Context, place: &Place, root: &Dir, wanted: &mut Vec<Wanted>) {
    let found = match git::modified(&context.environment, &place.root).await {
        Ok(found) => found,
        Err(error) => {
            return warn(&format!("modified files do not go along: {error}"));
        }
    };
    let mut modified: Vec<_> = found
        .into_iter()
        .filter(|path| wanted.iter().all(|other| other.path != *path))
        .filter_map(|path| {
            // Links are not followed: what they lead to was not modified. What was deleted is not there.
            let meta = root.symlink_metadata(&path).ok().filter(|meta| meta.is_file())?;
            let at = meta.modified().ok().map(cap_std::time::SystemTime::into_std);
            Some((at, Wanted { path, origin: Origin::Modified }))
        })
        .collect();
    modified.sort_by(|(a, _), (b, _)| b.cmp(a));
    wanted.extend(modified.into_iter().map(|(_, file)| file));
}

struct Wanted {
    path: PathBuf,
    origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Named,
    Modified,
}

impl Wanted {
    /// Nothing when it cannot go along; a failure when the person wanted exactly this one.
    fn read(&self, root: &Dir) -> Result<Option<Value>, Failure> {
        let shown = self.path.display();
        let Some(path) = self.path.to_str().filter(|path| normal_path(path).is_ok()) else {
            return self.leave_out("its name cannot be sent");
        };
        let read = match open(root, &self.path).and_then(read) {
            Ok(read) => read,
            Err(error) if self.origin == Origin::Named => {
                let message = format!("{shown} cannot be read");
                return Err(Failure::new(Exit::Usage, message).because(error));
            }
            Err(error) => return self.leave_out(&error.to_string()),
        };
        let mut file = json!({
            "path": path,
            "contentHash": read.sha256.to_string(),
            "sizeBytes": read.size_bytes,
            "isTouched": self.origin == Origin::Modified,
            "isNamed": self.origin == Origin::Named,
        });
        if let Some(content) = read.content {
            let Ok(content) = String::from_utf8(content) else {
                return self.leave_out("it is not UTF-8 text");
            };
            file["content"] = content.into();
        }
        Ok(Some(file))
    }

    fn leave_out(&self, reason: &str) -> Result<Option<Value>, Failure> {
        warn(&format!("{} is left out: {reason}", self.path.display()));
        Ok(None)
    }
}

/// A file as it was at one moment.
struct ReadFile {
    sha256: Sha256Hash,
    size_bytes: u64,
    /// None above the limit: only hash and size are told.
    content: Option<Vec<u8>>,
}

/// Only what is a file, because anything else could keep us waiting.
fn open(root: &Dir, path: &Path) -> io::Result<File> {
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a file");
    if !root.metadata(path)?.is_file() {
        return Err(no_file());
    }
    let file = root.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(no_file()) }
}

fn read(mut file: File) -> io::Result<ReadFile> {
    let mut hasher = Sha256::new();
    let (mut content, mut size_bytes) = (Vec::new(), 0);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        size_bytes += length as u64;
        if size_bytes > MAX_READ_BYTES {
            return Err(io::Error::other(format!("it has more than {MAX_READ_BYTES} bytes")));
        }
        hasher.update(&buffer[..length]);
        if size_bytes <= MAX_FILE_BYTES {
            content.extend_from_slice(&buffer[..length]);
        }
    }
    let content = (size_bytes <= MAX_FILE_BYTES).then_some(content);
    Ok(ReadFile { sha256: Sha256Hash::from_bytes(hasher.finalize().into()), size_bytes, content })
}

fn warn(text: &str) {
    output::note(&format!("warning: {}", output::printable(text)));
}
