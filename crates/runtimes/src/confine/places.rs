//! What of the file system an agent gets to see, as lists of paths.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::{Confinement, environment::Variables, program::Program};

/// What every program needs, as far as it is there.
const SYSTEM: [&str; 11] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/nix/store",
    "/run/current-system/sw",
    "/sys/devices/system/cpu",
];

/// Often links that lead out of `/etc`.
const LINKED: [&str; 3] = ["/etc/resolv.conf", "/etc/hosts", "/etc/localtime"];

/// Paths, all absolute.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) readable: BTreeSet<PathBuf>,
    /// Besides the workspace.
    pub(super) writable: BTreeSet<PathBuf>,
    /// What is inside of the others and must not be seen.
    pub(super) masked: BTreeSet<PathBuf>,
    /// Where they must be reachable by a name that leads over links.
    pub(super) named: Vec<PathBuf>,
}

impl Places {
    /// Everything that an agent may see.
    pub(super) fn gather(
        confinement: &Confinement,
        program: &Program,
        arguments: &[String],
        home: &Path,
        variables: &Variables,
    ) -> Self {
        let mut places = Self::default();
        let asked = SYSTEM.iter().chain(&LINKED).map(PathBuf::from);
        let asked = asked.chain(arguments.iter().filter_map(|argument| path_in(argument)));
        let asked = asked.chain(confinement.read_paths.iter().cloned());
        for path in asked.chain(variables.certificates()).chain(program.named.iter().cloned()) {
            if let Some(real) = path.canonicalize().ok().filter(|real| real != Path::new("/")) {
                places.readable.insert(real);
                places.named.push(path);
            }
        }
        places.readable.extend(program.parts.iter().cloned());
        places.writable.insert(home.to_owned());
        places.masked = secrets(Path::new("/etc"));
        let hidden = confinement.hidden.iter().filter_map(|path| path.canonicalize().ok());
        places.masked.extend(hidden);
        places
    }

    /// The readable and the writable paths for rules that can only add: directories with something masked in them are
    /// named child by child.
    pub(super) fn without_masks(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let split = |paths: &BTreeSet<PathBuf>| {
            let mut parts = Vec::new();
            paths.iter().for_each(|path| self.split(path, &mut parts));
            parts
        };
        (split(&self.readable), split(&self.writable))
    }

    fn split(&self, path: &Path, parts: &mut Vec<PathBuf>) {
        // What is itself inside of something masked was named on purpose.
        if self.masked.contains(path) {
            return;
        }
        if !self.masked.iter().any(|masked| masked.starts_with(path)) {
            parts.push(path.to_owned());
            return;
        }
        let Ok(children) = fs::read_dir(path) else { return };
        for child in children.flatten() {
            // A link is followed to a place with a rule of its own, or to none.
            if !child.file_type().is_ok_and(|kind| kind.is_symlink()) {
                self.split(&child.path(), parts);
            }
        }
    }
}

/// The absolute path that an argument names: all of it, or what follows a `=`.
fn path_in(argument: &str) -> Option<PathBuf> {
    let path = match argument.split_once('=') {
        Some((_, value)) if !argument.starts_with('/') => value,
        _ => argument,
    };
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// What not everybody on this machine may read. An agent of root's would be able to.
fn secrets(directory: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let Ok(children) = fs::read_dir(directory) else { return found };
    for child in children.flatten() {
        let Ok(metadata) = child.metadata() else { continue };
        let mode = metadata.permissions().mode();
        match metadata.is_dir() {
            true if mode & 0o005 == 0o005 => found.extend(secrets(&child.path())),
            false if metadata.is_symlink() || mode & 0o004 != 0 => {}
            _ => {
                found.insert(child.path());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_not_everybody_may_read_is_found_and_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path();
        for (name, mode) in [("hosts", 0o644), ("shadow", 0o640), ("ssl/cert", 0o644)] {
            fs::create_dir_all(base.join(name).parent().unwrap()).unwrap();
            fs::write(base.join(name), "").unwrap();
            fs::set_permissions(base.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir(base.join("ssl/private")).unwrap();
        fs::set_permissions(base.join("ssl/private"), fs::Permissions::from_mode(0o710)).unwrap();
        fs::set_permissions(base.join("ssl"), fs::Permissions::from_mode(0o755)).unwrap();

        let masked = secrets(base);
        let places = Places { readable: [base.to_owned()].into(), masked, ..Places::default() };
        let (mut readable, _) = places.without_masks();
        readable.sort();

        assert_eq!(places.masked, [base.join("shadow"), base.join("ssl/private")].into());
        assert_eq!(readable, [base.join("hosts"), base.join("ssl/cert")]);
    }

    #[test]
    fn arguments_name_paths_alone_or_behind_an_equals_sign() {
        let arguments = ["--acp", "/opt/a", "--config=/opt/b", "x=y", "relative/c", "/opt/d=e"];

        let paths: Vec<_> = arguments.iter().filter_map(|argument| path_in(argument)).collect();

        assert_eq!(paths, [Path::new("/opt/a"), Path::new("/opt/b"), Path::new("/opt/d=e")]);
    }
}
