//! A Git work tree to be indexed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

pub struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(super) fn init(root: PathBuf) -> Self {
        fs::create_dir_all(&root).expect("a directory can be made");
        let tree = Self { root };
        tree.git(&["init", "-q", "-b", "main"]);
        tree
    }

    pub fn root(&self) -> String {
        self.root.to_str().expect("a path of the test's own").to_owned()
    }

    pub fn path(&self) -> &Path {
        &self.root
    }

    pub fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("a file is in a directory"))
            .expect("a directory can be made");
        fs::write(path, text).expect("a file can be written");
        self
    }

    pub fn remove(&self, path: &str) {
        fs::remove_file(self.root.join(path)).expect("a file can be removed");
    }

    pub fn rename(&self, from: &str, to: &str) {
        fs::rename(self.root.join(from), self.root.join(to)).expect("a file can be renamed");
    }

    /// Commits everything and returns the commit's id.
    pub fn commit(&self) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "changed"]);
        self.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=Test", "-c", "user.email=test@example.com"])
            .args(["-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null"])
            .args(arguments)
            .current_dir(&self.root)
            .output()
            .expect("git runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("git writes UTF-8")
    }
}
