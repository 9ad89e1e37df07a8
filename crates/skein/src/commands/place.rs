//! Where a command is run: the work tree around the current directory, or that directory itself.

use std::path::{Path, PathBuf};

use cap_std::{ambient_authority, fs::Dir};

use crate::{
    failure::{Exit, Failure},
    git,
};

/// The directory that the caller works in.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Absolute and without links. Paths are told relative to it.
    pub(super) root: PathBuf,
    pub(super) kind: PlaceKind,
    current: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaceKind {
    WorkTree,
    Plain,
}

impl Place {
    pub(super) fn here() -> Result<Self, Failure> {
        let current = std::env::current_dir().and_then(|current| current.canonicalize());
        let current = current.map_err(|error| {
            Failure::new(Exit::Usage, "the current directory cannot be used").because(error)
        })?;
        Ok(match git::work_tree(&current) {
            Some(root) => Self { root: root.to_owned(), kind: PlaceKind::WorkTree, current },
            None => Self { root: current.clone(), kind: PlaceKind::Plain, current },
        })
    }

    /// Tells working copies apart, also those of other machines.
    pub(super) fn workspace_id(&self) -> String {
        let host = rustix::system::uname();
        format!("{}:{}", host.nodename().to_string_lossy(), self.root.display())
    }

    /// What the work tree is called.
    pub(super) fn repo_name(&self) -> Option<&str> {
        match self.kind {
            PlaceKind::WorkTree => self.root.file_name()?.to_str(),
            PlaceKind::Plain => None,
        }
    }

    /// The root, when it is one of a work tree.
    pub(super) fn work_tree(&self) -> Option<String> {
        match self.kind {
            PlaceKind::WorkTree => self.root.to_str().map(str::to_owned),
            PlaceKind::Plain => None,
        }
    }

    /// From here on nothing outside can be reached, whatever links say.
    pub(super) fn open(&self) -> Result<Dir, Failure> {
        Dir::open_ambient_dir(&self.root, ambient_authority()).map_err(|error| {
            let message = format!("{} cannot be opened", self.root.display());
            Failure::new(Exit::Usage, message).because(error)
        })
    }

    /// A file as the person names it, from the directory they are in, told from the root.
    pub(super) fn relative(&self, named: &Path) -> Result<PathBuf, Failure> {
        let unusable =
            |reason: &str| Failure::new(Exit::Usage, format!("{} {reason}", named.display()));
        let absolute = self.current.join(named);
        let name = absolute.file_name().ok_or_else(|| unusable("is not a file"))?;
        // The file itself may be a link; where that may lead is decided when it is opened.
        let parent = absolute.parent().unwrap_or(Path::new("/")).canonicalize();
        let parent = parent.map_err(|error| unusable("cannot be read").because(error))?;
        let inside = parent.strip_prefix(&self.root).map_err(|_| {
            unusable("is outside of the work tree")
                .hint(format!("files must be below {}", self.root.display()))
        })?;
        Ok(inside.join(name))
    }
}
