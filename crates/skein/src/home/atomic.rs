//! Files that are either the old one or the new one, whatever happens in between.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Writes a file that only its owner can read: beside it first, durable, then in its place.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let temporary = path.with_extension(format!("new-{}", std::process::id()));
    let written = write_new(&temporary, content).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        drop(fs::remove_file(&temporary));
    }
    written?;
    File::open(directory)?.sync_all()
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    // Left behind by a process of the same number that was killed.
    drop(fs::remove_file(path));
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_private_file_replaces_an_open_one_and_leaves_nothing_beside_it() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("token");
        fs::write(&path, "old, readable by everyone").unwrap();

        write_private(&path, b"new\n").unwrap();

        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode), ("new\n", 0o600));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
