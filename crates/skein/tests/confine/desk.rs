//! A workspace, a home and a cage for one test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use skein_runtimes::confine::{Caged, ConfineError, Confinement, Exit, Launch, Launcher};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;

/// With or without bubblewrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walls {
    Bubblewrap,
    Bare,
}

pub(crate) const BOTH: [Walls; 2] = [Walls::Bubblewrap, Walls::Bare];

/// Everything that one agent needs, and places around it that are none of its business.
pub(crate) struct Desk {
    pub(crate) base: PathBuf,
    _directory: Option<TempDir>,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let directory = TempDir::with_prefix("skein-cage-").unwrap();
        let base = directory.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("repos/web")).unwrap();
        Self { base, _directory: Some(directory) }
    }

    /// One that somebody else made and removes.
    pub(crate) fn at(base: PathBuf) -> Self {
        Self { base, _directory: None }
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.base.join("repos/web")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.base.join("skein/agents/1/home")
    }

    /// Everything that this machine offers, with or without bubblewrap, which must be there.
    pub(crate) fn confinement(&self, walls: Walls) -> Confinement {
        let mut launcher = Launcher::find().unwrap();
        launcher.skein = PathBuf::from(env!("CARGO_BIN_EXE_skein"));
        match walls {
            Walls::Bubblewrap => assert!(launcher.bubblewrap.is_some(), "bubblewrap is missing"),
            Walls::Bare => launcher = launcher.without_bubblewrap(),
        }
        Confinement { hidden: vec![self.base.join("skein")], ..Confinement::new(launcher) }
    }

    pub(crate) async fn spawn(
        &self,
        confinement: &Confinement,
        command: &[&str],
    ) -> Result<Caged, ConfineError> {
        let command: Vec<_> = command.iter().map(|word| (*word).to_owned()).collect();
        let (workspace, home) = (self.workspace(), self.home());
        let launch =
            Launch { command: &command, workspace: &workspace, home: &home, env: Vec::new() };
        confinement.spawn(launch).await
    }

    /// Runs a shell script in the cage.
    pub(crate) async fn shell(&self, walls: Walls, script: &str) -> Caged {
        let confinement = self.confinement(walls);
        self.spawn(&confinement, &["sh", "-c", script]).await.unwrap()
    }
}

/// The agent that wants out, built if it has to be: it belongs to another package.
pub(crate) fn hostile_agent() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let skein = Path::new(env!("CARGO_BIN_EXE_skein"));
        let (profile, target) =
            (skein.parent().unwrap(), skein.parent().unwrap().parent().unwrap());
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "skein-testkit", "--bin", "hostile-agent"]);
        cargo.arg("--target-dir").arg(target);
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success());
        profile.join("hostile-agent").canonicalize().unwrap()
    };
    BUILT.get_or_init(build).clone()
}

/// Everything an agent said, and how it ended.
pub(crate) async fn outcome(caged: Caged) -> (String, String, Exit) {
    let Caged { stdin, mut stdout, mut stderr, cage, .. } = caged;
    drop(stdin);
    let (mut said, mut complained) = (String::new(), String::new());
    let (out, err) =
        tokio::join!(stdout.read_to_string(&mut said), stderr.read_to_string(&mut complained));
    out.unwrap();
    err.unwrap();
    (said, complained, cage.exited().await)
}

pub(crate) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
