//! Where the scripted agent is.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

/// The program, which is built first where it is missing or older than its source: a test of this package does not build the
/// programs of another one.
pub(crate) fn scripted_agent() -> PathBuf {
    let skein = Path::new(env!("CARGO_BIN_EXE_skein"));
    let agent = skein.with_file_name("scripted-agent");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/src/agent");
    let built = changed(&agent);
    if built.is_none() || built < newest(&source) {
        build(skein);
    }
    agent
}

fn build(skein: &Path) {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--package", "skein-testkit", "--bin", "scripted-agent"]);
    if skein.parent().is_some_and(|directory| directory.ends_with("release")) {
        command.arg("--release");
    }
    let status = command.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap();
    assert!(status.success(), "the scripted agent could not be built: {status}");
}

fn newest(directory: &Path) -> Option<SystemTime> {
    let files = fs::read_dir(directory).unwrap();
    files.filter_map(|file| changed(&file.unwrap().path())).max()
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}
