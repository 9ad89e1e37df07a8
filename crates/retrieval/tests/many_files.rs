//! A tree of very many files is indexed in bounded memory, whatever else is in it.
//!
//! `SKEIN_ROBUSTNESS=large` makes it 100,000 files.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::Path,
    process::Command,
};

const MAX_KB: u64 = 300 * 1024;

#[test]
fn very_many_files_are_indexed_in_bounded_memory() {
    let is_large =
        std::env::vars().any(|(name, size)| name == "SKEIN_ROBUSTNESS" && size == "large");
    let files = if is_large { 100_000 } else { 4_000 };
    let home = tempfile::tempdir().unwrap();
    let tree = home.path().join("tree");
    grow(&tree, files);

    let output = Command::new(env!("CARGO_BIN_EXE_retrieval-bench"))
        .arg("index")
        .arg(&tree)
        .arg(home.path().join("index.db"))
        .output()
        .unwrap();

    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.starts_with(&format!("{files} files, {files} chunks")), "{said}");
    let peak = said.lines().find_map(|line| line.strip_prefix("peak memory: ")).unwrap();
    let peak: u64 = peak.trim_end_matches(" kB").parse().unwrap();
    eprintln!("{files} files, {peak} kB at most");
    assert!(peak <= MAX_KB, "{peak} kB");
}

/// Beside the files, what must not count or lead anywhere.
fn grow(tree: &Path, files: usize) {
    fs::create_dir_all(tree.join(".git")).unwrap();
    for number in 0..files {
        let directory = tree.join(format!("part_{}/of_{}", number % 97, number % 11));
        if number < 97 * 11 {
            fs::create_dir_all(&directory).unwrap();
        }
        let text = format!("pub fn function_{number}() -> usize {{\n    {number}\n}}\n");
        fs::write(directory.join(format!("file_{number}.rs")), text).unwrap();
    }
    // Around in a circle, to nowhere, and out of the tree.
    symlink(tree, tree.join("part_0/circle")).unwrap();
    symlink("itself", tree.join("itself")).unwrap();
    symlink("/", tree.join("out")).unwrap();
    // A name that is no text, and a file of 2 GB that takes no room.
    fs::write(tree.join(OsStr::from_bytes(b"na\xffme.rs")), "fn x() {}\n").unwrap();
    fs::File::create(tree.join("huge.rs")).unwrap().set_len(2 * 1024 * 1024 * 1024).unwrap();
}
