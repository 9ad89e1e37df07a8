//! A PostgreSQL server of our own, durable as PostgreSQL is by default, on a socket that nobody else knows.

use std::{
    ffi::OsStr,
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

use crate::process::TICK;

const OWNER: &str = "skein_owner";
const APP: &str = "skein_app";
const SUPERUSER: &str = "postgres";

/// Where Debian's packages put the programs, one folder for each version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// The defaults of PostgreSQL, said aloud where they decide what is measured.
const SETTINGS: &str =
    "-c listen_addresses='' -c fsync=on -c synchronous_commit=on -c full_page_writes=on";

/// It ends, and its files are gone, when this is dropped.
pub(crate) struct Cluster {
    programs: PathBuf,
    folder: TempDir,
}

/// One database of a cluster.
pub(crate) struct Database<'a> {
    cluster: &'a Cluster,
    name: String,
}

/// A connection, open while this lives.
pub(crate) struct Login {
    client: Client,
    _driver: JoinSet<Result<(), tokio_postgres::Error>>,
}

impl Deref for Login {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Cluster {
    /// `None` where PostgreSQL is not installed.
    pub(crate) fn start(parent: &Path) -> anyhow::Result<Option<Self>> {
        let Some(programs) = newest_programs() else { return Ok(None) };
        let folder = tempfile::Builder::new().prefix("skein-pg-").tempdir_in(parent)?;
        let cluster = Self { programs, folder };
        if is_root() {
            let chown = Command::new("chown").arg(SUPERUSER).arg(cluster.folder.path()).output()?;
            ensure!(chown.status.success(), "chown: {}", String::from_utf8_lossy(&chown.stderr));
        }
        let data = cluster.data();
        let locale = ["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"];
        cluster.run(
            "initdb",
            [OsStr::new("-D"), data.as_os_str()].into_iter().chain(locale.map(OsStr::new)),
        )?;
        let settings = format!("{SETTINGS} -c unix_socket_directories='{}'", cluster.socket());
        let log = cluster.folder.path().join("log");
        let place = [OsStr::new("-D"), data.as_os_str(), OsStr::new("-l"), log.as_os_str()];
        cluster
            .run(
                "pg_ctl",
                place.into_iter().chain(["-w", "-o", &settings, "start"].map(OsStr::new)),
            )
            .with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
        Ok(Some(cluster))
    }

    /// Makes the roles of the product, and a database that the first of them owns.
    pub(crate) async fn create(&self, name: &str) -> anyhow::Result<Database<'_>> {
        let client = self.connect(SUPERUSER).await?;
        client
            .batch_execute(&format!(
                "DO $$ BEGIN
                     IF to_regrole('{OWNER}') IS NULL THEN
                         CREATE ROLE {OWNER} LOGIN NOSUPERUSER NOBYPASSRLS CREATEDB;
                         CREATE ROLE {APP} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE;
                     END IF;
                 END $$"
            ))
            .await?;
        client.batch_execute(&format!("CREATE DATABASE {name} OWNER {OWNER}")).await?;
        Ok(Database { cluster: self, name: name.to_owned() })
    }

    async fn connect(&self, database: &str) -> anyhow::Result<Login> {
        let login = format!("host={} user={SUPERUSER} dbname={database}", self.socket());
        let (client, connection) = tokio_postgres::connect(&login, NoTls).await?;
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        Ok(Login { client, _driver: driver })
    }

    /// Processor time of the server and of all the processes it ever had. One that still runs or was not taken leave of
    /// counts too.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        let file = fs::read_to_string(self.data().join("postmaster.pid"))?;
        let postmaster: u32 = file.lines().next().context("no pid")?.trim().parse()?;
        let mut ticks = 0;
        for entry in fs::read_dir("/proc")? {
            let Ok(stat) = fs::read_to_string(entry?.path().join("stat")) else { continue };
            let Some((start, fields)) = stat.rsplit_once(')') else { continue };
            let is_postmaster =
                start.split(' ').next().is_some_and(|pid| pid == postmaster.to_string());
            let fields: Vec<u64> =
                fields.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
            let times = fields.get(10..14).context("unexpected /proc/<pid>/stat")?;
            if is_postmaster {
                ticks += times.iter().sum::<u64>();
            } else if fields.first() == Some(&u64::from(postmaster)) {
                ticks += times[..2].iter().sum::<u64>();
            }
        }
        Ok(TICK * u32::try_from(ticks)?)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn socket(&self) -> std::path::Display<'_> {
        self.folder.path().display()
    }

    /// PostgreSQL refuses to run as root; Debian's package brings a user for it.
    fn run(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> anyhow::Result<Output> {
        let path = self.programs.join(program);
        let mut command = if is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", SUPERUSER, "--"]).arg(path);
            command
        } else {
            Command::new(path)
        };
        // Its user may not be allowed to be where we are. A server would keep our pipes open, so pg_ctl gets none.
        command.current_dir("/").args(arguments);
        let output = if program == "pg_ctl" {
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
            Output { status: command.status()?, stdout: Vec::new(), stderr: Vec::new() }
        } else {
            command.output()?
        };
        ensure!(
            output.status.success(),
            "{program} ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(output)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let data = self.data();
        let arguments = [OsStr::new("-D"), data.as_os_str()];
        let stop = ["-m", "immediate", "-w", "stop"].map(OsStr::new);
        drop(self.run("pg_ctl", arguments.into_iter().chain(stop)));
    }
}

impl Database<'_> {
    /// See [`Cluster::cpu`].
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        self.cluster.cpu()
    }

    /// What a server's configuration says to work in this database.
    pub(crate) fn settings(&self) -> String {
        format!("[store]\nurl = '{}'\nmigrate_url = '{}'\n", self.url(APP), self.url(OWNER))
    }

    /// A login that nothing is hidden from.
    pub(crate) async fn connect(&self) -> anyhow::Result<Login> {
        self.cluster.connect(&self.name).await
    }

    /// Runs a script of pgbench from many clients, with these values for its variables; gives what it printed.
    pub(crate) fn pgbench(
        &self,
        script: &str,
        (clients, turns): (usize, usize),
        variables: &[(&str, String)],
    ) -> anyhow::Result<String> {
        let file = self.cluster.folder.path().join("script.sql");
        fs::write(&file, script)?;
        let mut arguments: Vec<String> =
            ["-n", "-M", "prepared", "-j", "2", "-U", SUPERUSER].map(str::to_owned).to_vec();
        arguments.extend(["-h".to_owned(), self.cluster.socket().to_string()]);
        arguments.extend(["-c".to_owned(), clients.to_string()]);
        arguments.extend(["-t".to_owned(), turns.to_string()]);
        arguments.extend(["-f".to_owned(), file.display().to_string()]);
        for (name, value) in variables {
            arguments.extend(["-D".to_owned(), format!("{name}={value}")]);
        }
        arguments.push(self.name.clone());
        let output = self.cluster.run("pgbench", arguments)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn url(&self, role: &str) -> String {
        let socket = self.cluster.socket().to_string().replace('/', "%2F");
        format!("postgres://{role}@{socket}/{}", self.name)
    }
}

fn newest_programs() -> Option<PathBuf> {
    let versions = fs::read_dir(VERSIONS).ok()?.filter_map(|entry| {
        let entry = entry.ok()?;
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let programs = entry.path().join("bin");
        programs.join("pgbench").exists().then_some((version, programs))
    });
    versions.max().map(|(_, programs)| programs)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
