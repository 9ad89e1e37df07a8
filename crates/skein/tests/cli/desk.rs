//! A home whose default agent is the strict Responses server, and a Git work tree to ask from.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;
use skein_testkit::responses::ResponsesServer;
use tempfile::TempDir;

use crate::common::{Ran, TestHome, TestServer};

const KEY_VARIABLE: &str = "DESK_PROVIDER_KEY";

pub(crate) struct Desk {
    pub(crate) provider: ResponsesServer,
    pub(crate) home: TestHome,
    pub(crate) tree: WorkTree,
}

impl Desk {
    /// The provider keeps conversations.
    pub(crate) async fn new() -> Self {
        Self::with(ResponsesServer::start().await, "server")
    }

    /// The provider keeps nothing and wants no key.
    pub(crate) async fn without_memory() -> Self {
        Self::with(ResponsesServer::without_memory().await, "none")
    }

    fn with(provider: ResponsesServer, chain: &str) -> Self {
        let home = TestHome::with_config(&format!(
            "[sessions]\ndefault_agent = \"model\"\n\
             [providers.model]\nbase_url = \"{}\"\nkey_env = \"{KEY_VARIABLE}\"\n\
             chain = \"{chain}\"\nmodel = \"m-1\"\n",
            provider.base_url()
        ));
        Self { provider, home, tree: WorkTree::new() }
    }

    /// A server on the home. Commands find it.
    pub(crate) async fn serve(&self) -> TestServer {
        TestServer::on_with(self.home.clone(), &[(KEY_VARIABLE, self.provider.key())]).await
    }

    /// The binary in the work tree.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.command(arguments);
        command.current_dir(self.tree.path()).env(KEY_VARIABLE, self.provider.key());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(&mut self.command(arguments))
    }

    /// Runs with something on stdin.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Fails when it ends before it has read everything, which is its right.
        drop(child.stdin.take().unwrap().write_all(input));
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs; fails unless it succeeded.
    #[track_caller]
    pub(crate) fn ask(&self, arguments: &[&str]) -> Ran {
        let ran = self.run(&[&["ask"], arguments].concat());
        assert_eq!(ran.code, Some(0), "stdout: {}\nstderr: {}", ran.stdout, ran.stderr);
        ran
    }

    /// The bodies that started a model.
    pub(crate) fn sent(&self) -> Vec<Value> {
        self.provider.dispatches().into_iter().map(|dispatch| dispatch.body).collect()
    }
}

/// A directory with a repository, made by Git itself.
pub(crate) struct WorkTree {
    directory: TempDir,
}

impl WorkTree {
    pub(crate) fn new() -> Self {
        let tree = Self { directory: TempDir::with_prefix("skein-tree-").unwrap() };
        tree.git(&["init", "--quiet"]);
        tree
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::create_dir_all(self.file(name).parent().unwrap()).unwrap();
        fs::write(self.file(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    /// Everything as it is now becomes the last commit.
    pub(crate) fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", "work"]);
    }

    pub(crate) fn git(&self, arguments: &[&str]) {
        let output = Command::new("git")
            .args(["-c", "user.name=Test", "-c", "user.email=test@example.org"])
            .args(arguments)
            .current_dir(self.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
