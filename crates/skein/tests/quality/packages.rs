//! Where the sources of packages are.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The sources of a package, by its name and version as in `tokio-1.54.1`. None when Skein is not built from it.
pub(crate) fn find(name_and_version: &str) -> Option<PathBuf> {
    unpacked(name_and_version).or_else(|| described(name_and_version))
}

/// Where Cargo unpacks what it has fetched.
fn unpacked(name_and_version: &str) -> Option<PathBuf> {
    let variable = |name: &str| std::env::vars_os().find(|(known, _)| known == name);
    let home = match variable("CARGO_HOME") {
        Some((_, home)) => PathBuf::from(home),
        None => PathBuf::from(variable("HOME")?.1).join(".cargo"),
    };
    let registries = fs::read_dir(home.join("registry/src")).ok()?;
    let places = registries.flatten().map(|registry| registry.path().join(name_and_version));
    places.into_iter().find(|place| place.is_dir())
}

/// Where Cargo says that they are, e.g. when packages are kept beside the project.
fn described(name_and_version: &str) -> Option<PathBuf> {
    // Packages for other platforms were never fetched.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .args(["--filter-platform", &platform])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let is_it = |package: &&Value| {
        let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
        format!("{}-{}", text("name"), text("version")) == name_and_version
    };
    let package = metadata["packages"].as_array()?.iter().find(is_it)?;
    Path::new(package["manifest_path"].as_str()?).parent().map(Path::to_owned)
}
