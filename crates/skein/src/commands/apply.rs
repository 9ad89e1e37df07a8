//! Writes proposed files into a work tree: all of them or, when one is not as the agent saw it, none.

use std::{
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

use cap_std::fs::{Dir, OpenOptions, Permissions, PermissionsExt};
use serde_json::Value;
use skein_core::{model::Sha256Hash, policy::active_files::normal_path};

use super::{place::Place, text};
use crate::{
    failure::{Exit, Failure},
    output,
};

/// A file that is compared before it is replaced is not larger.
const MAX_COMPARED_BYTES: u64 = 256 * 1024 * 1024;

/// Checks every file, then writes every file, then says what was written.
pub(super) fn apply(place: &Place, bundle: &Value) -> Result<(), Failure> {
    let root = place.open()?;
    let files = bundle["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    let changes: Vec<_> = files.iter().map(Change::parse).collect::<Result<_, _>>()?;
    for change in &changes {
        change.check(&root)?;
    }
    let mut staged = Vec::new();
    for change in &changes {
        match change.stage(&root) {
            Ok(one) => staged.push(one),
            Err(error) => {
                staged.iter().for_each(Staged::discard);
                let message = format!("{} cannot be written", change.path);
                return Err(Failure::new(Exit::Failed, message)
                    .because(error)
                    .hint("nothing was written"));
            }
        }
    }
    for (change, staged) in changes.iter().zip(&staged) {
        staged.put_in_place().map_err(|error| {
            let message = format!("{} cannot be put in its place", change.path);
            Failure::new(Exit::Failed, message).because(error)
        })?;
        output::note(&format!("{} {}", change.action.done(), output::printable(change.path)));
    }
    Ok(())
}

struct Change<'a> {
    path: &'a str,
    action: Action,
    base: Option<&'a str>,
    content: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Create,
    Update,
    Delete,
}

impl Action {
    const fn done(self) -> &'static str {
        match self {
            Self::Create => "created",
            Self::Update => "updated",
            Self::Delete => "deleted",
        }
    }
}

impl<'a> Change<'a> {
    fn parse(file: &'a Value) -> Result<Self, Failure> {
        let path = text(file, "path");
        let action = match text(file, "action") {
            "create" => Action::Create,
            "update" => Action::Update,
            "delete" => Action::Delete,
            other => return Err(conflict(path, &format!("{other:?} is not known here"))),
        };
        // Two spellings of one path would be two changes of one file.
        if normal_path(path).ok().as_deref() != Some(path) || !is_plain(Path::new(path)) {
            return Err(conflict(path, "it is not a path inside of the work tree"));
        }
        if names_git(Path::new(path)) {
            return Err(conflict(path, "Git's own files are not changed"));
        }
        let (base, content) = (file["baseHash"].as_str(), text(file, "content"));
        Ok(Self { path, action, base, content })
    }

    /// It must be what the agent saw.
    fn check(&self, root: &Dir) -> Result<(), Failure> {
        let unreadable = |error| conflict(self.path, "it cannot be read").because(error);
        let found = match root.symlink_metadata(self.path) {
            Ok(meta) => Some(meta),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(unreadable(error)),
        };
        // Links inside of the work tree could still lead to Git's own files.
        if let Some(parent) = existing_parent(root, Path::new(self.path))
            && names_git(&root.canonicalize(parent).map_err(unreadable)?)
        {
            return Err(conflict(self.path, "Git's own files are not changed"));
        }
        match (self.action, found, self.base) {
            (Action::Create, None, _) => Ok(()),
            (Action::Create, Some(_), _) => Err(conflict(self.path, "it exists already")),
            (_, None, _) => Err(conflict(self.path, "it does not exist any more")),
            (_, Some(meta), _) if !meta.is_file() => Err(conflict(self.path, "it is not a file")),
            (_, Some(_), None) => Err(conflict(self.path, "the agent has never seen it")),
            (_, Some(meta), Some(_)) if meta.len() > MAX_COMPARED_BYTES => {
                Err(conflict(self.path, "it is too large"))
            }
            (_, Some(_), Some(base)) => {
                let current = root.read(self.path).map_err(unreadable)?;
                match Sha256Hash::of(&current).to_string() == base {
                    true => Ok(()),
                    false => Err(conflict(self.path, "it has changed since the agent saw it")),
                }
            }
        }
    }

    /// Everything but the last step: the content is on disk, beside its place.
    fn stage(&self, root: &Dir) -> io::Result<Staged> {
        let path = Path::new(self.path);
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        let folder = folder(root, path.parent().unwrap_or(Path::new("")))?;
        if self.action == Action::Delete {
            return Ok(Staged { folder, name, temporary: None });
        }
        // As open as the file that it replaces, or as the directory that it is new in.
        let mode = match self.action {
            Action::Update => folder.metadata(&name)?.permissions().mode() & 0o777,
            Action::Create | Action::Delete => folder.dir_metadata()?.permissions().mode() & 0o666,
        };
        let temporary = PathBuf::from(format!(".{}.skein-{}", name.display(), std::process::id()));
        let staged = Staged { folder, name, temporary: Some(temporary.clone()) };
        let written = write_new(&staged.folder, &temporary, self.content.as_bytes(), mode);
        if written.is_err() {
            staged.discard();
        }
        written.map(|()| staged)
    }
}

struct Staged {
    folder: Dir,
    name: PathBuf,
    /// None when the file is to be deleted.
    temporary: Option<PathBuf>,
}

impl Staged {
    fn put_in_place(&self) -> io::Result<()> {
        match &self.temporary {
            Some(temporary) => self.folder.rename(temporary, &self.folder, &self.name),
            None => self.folder.remove_file(&self.name),
        }
    }

    fn discard(&self) {
        if let Some(temporary) = &self.temporary {
            drop(self.folder.remove_file(temporary));
        }
    }
}

fn write_new(folder: &Dir, name: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = folder.open_with(name, OpenOptions::new().write(true).create_new(true))?;
    file.write_all(content)?;
    // This program's own files are private, and so is its umask; these belong to the work tree.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

/// Opens a directory below the root, making what is missing as open as the one above it.
fn folder(root: &Dir, path: &Path) -> io::Result<Dir> {
    let mut current = root.try_clone()?;
    for name in path {
        current = match current.open_dir(name) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mode = current.dir_metadata()?.permissions().mode() & 0o777;
                current.create_dir(name)?;
                current.set_permissions(name, Permissions::from_mode(mode))?;
                current.open_dir(name)?
            }
            Err(error) => return Err(error),
        };
    }
    Ok(current)
}

/// The nearest directory above a file that is there.
fn existing_parent<'a>(root: &Dir, path: &'a Path) -> Option<&'a Path> {
    let mut above = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
    above.find(|parent| root.symlink_metadata(parent).is_ok())
}

fn is_plain(path: &Path) -> bool {
    let mut parts = path.components();
    parts.all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// Also as file systems that do not tell cases apart would read it.
fn names_git(path: &Path) -> bool {
    path.iter().any(|part| {
        let part = part.to_string_lossy().to_lowercase();
        part == ".git" || part == "git~1"
    })
}

fn conflict(path: &str, reason: &str) -> Failure {
    Failure::new(Exit::Conflict, format!("{path} cannot be changed: {reason}"))
        .hint("nothing was written; ask again to let the agent see the file as it is now")
}
