//! Where the sources of packages are.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The sources of a package, by its name and version as in `tokio-1.54.1`. None when Skein is not built from it.
pub(crate) fn find(name_and_version: &str) -> Option<PathBuf> {
    // Packages for other platforms were never fetched.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--all-features"])
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
