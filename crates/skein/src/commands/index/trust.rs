//! The work trees that the operator vouches for, by naming them on the machine of the home.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use crate::{
    failure::{Exit, Failure},
    home::Home,
};

/// Lists a work tree, unless it is listed. A server that runs sees it at once.
pub(in crate::commands) fn trust(home: &Home, root: &str) -> Result<(), Failure> {
    if root.contains(['\n', '\r']) {
        return Err(Failure::new(
            Exit::Usage,
            format!("{root:?} cannot be used: it has several lines"),
        ));
    }
    home.prepare()?;
    let file = home.trusted_file();
    let refused = |error| {
        Failure::new(Exit::Unavailable, format!("cannot write {}", file.display())).because(error)
    };
    let listed = trusted(home).map_err(refused)?;
    if listed.iter().any(|line| line == root) {
        return Ok(());
    }
    // Appended in one piece, so that two commands at once lose nothing.
    let options = File::options().append(true).create(true).mode(0o600).open(&file);
    let mut opened = options.map_err(refused)?;
    opened.write_all(format!("{root}\n").as_bytes()).map_err(refused)?;
    opened.sync_all().map_err(refused)
}

/// The listed work trees.
pub(in crate::commands) fn trusted(home: &Home) -> std::io::Result<Vec<String>> {
    match fs::read_to_string(home.trusted_file()) {
        Ok(text) => Ok(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Whether a listed work tree is still one.
pub(in crate::commands) fn is_there(root: &str) -> bool {
    Path::new(root).join(".git").symlink_metadata().is_ok()
}
