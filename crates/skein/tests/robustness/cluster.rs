//! A PostgreSQL of one test, which may be stopped as a crash would stop it.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::common::postgres::{APP_ROLE, Server, connect};

/// A server on a socket in a directory of its own, with nothing switched off that makes commits durable.
pub(crate) struct Cluster {
    binaries: PathBuf,
    home: TempDir,
}

impl Cluster {
    /// `None`, and a line that says so, where the tests do not know a PostgreSQL.
    #[expect(
        clippy::disallowed_methods,
        reason = "where the tests' PostgreSQL is comes from their script"
    )]
    pub(crate) fn start() -> Option<Self> {
        let Ok(binaries) = std::env::var("SKEIN_TEST_POSTGRES_BINARIES") else {
            // Says why, and that it must not be in CI.
            assert!(Server::from_environment().is_none(), "scripts/with-postgres names them");
            return None;
        };
        let home = TempDir::with_prefix("skein-cluster-").unwrap();
        if rustix::process::geteuid().is_root() {
            run(Command::new("chown").arg("postgres").arg(home.path()));
        }
        let cluster = Self { binaries: binaries.into(), home };
        let data = cluster.data();
        let options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"];
        run(cluster.tool("initdb").arg("-D").arg(&data).arg("--no-sync").args(options));
        cluster.control(&["start"]);
        Some(cluster)
    }

    /// The two logins that the tests work with.
    pub(crate) async fn server(&self) -> Server {
        let login =
            |user| format!("host={} user={user} dbname=postgres", self.home.path().display());
        let (superuser, _driver) = connect(&login("postgres")).await;
        let roles = format!("CREATE ROLE skein_owner LOGIN CREATEDB; CREATE ROLE {APP_ROLE} LOGIN");
        superuser.batch_execute(&roles).await.unwrap();
        Server { app: login(APP_ROLE), owner: login("skein_owner") }
    }

    /// Ends every process of the server without a word, and starts it again, which makes it recover.
    pub(crate) fn crash(&self) {
        self.control(&["restart", "-m", "immediate"]);
    }

    pub(crate) fn stop(&self) {
        self.control(&["stop", "-m", "immediate"]);
    }

    pub(crate) fn go_on(&self) {
        self.control(&["start"]);
    }

    fn control(&self, what: &[&str]) {
        let options = format!(
            "-c listen_addresses='' -c unix_socket_directories='{}' -c fsync=on",
            self.home.path().display()
        );
        let mut command = self.tool("pg_ctl");
        command.arg("-D").arg(self.data()).arg("-l").arg(self.home.path().join("log"));
        run(command.args(["-w", "-o", &options]).args(what));
    }

    fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// PostgreSQL refuses to run as root; Debian's package brings a user for it.
    fn tool(&self, name: &str) -> Command {
        let program = self.binaries.join(name);
        let mut command = match rustix::process::geteuid().is_root() {
            true => {
                let mut command = Command::new("runuser");
                command.args(["-u", "postgres", "--"]).arg(program);
                command
            }
            false => Command::new(program),
        };
        command.current_dir(Path::new("/"));
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut stop = self.tool("pg_ctl");
        stop.arg("-D").arg(self.data()).args(["-m", "immediate", "-w", "stop"]);
        // It may have been stopped already.
        drop(stop.stdout(Stdio::null()).stderr(Stdio::null()).status());
    }
}

/// Output goes nowhere: the server would keep a pipe open.
fn run(command: &mut Command) {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}
