//! What is measured: Skein, or the limit program. Both speak the same wire, so one client serves for both.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use crate::{
    arguments::RunArguments,
    client::{Connection, Endpoint},
    limit,
    text::Noise,
};

/// The size of an instruction, and of the reply to it.
pub(crate) const INSTRUCTION_BYTES: usize = 200;
pub(crate) const REPLY_BYTES: usize = 2_000;
pub(crate) const CHUNK_BYTES: usize = 200;

const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(40);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Skein,
    Limit,
}

impl Subject {
    pub(crate) const BOTH: [Self; 2] = [Self::Skein, Self::Limit];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Skein => "skein",
            Self::Limit => "limit",
        }
    }
}

/// A folder for one store, gone when this is dropped.
pub(crate) struct Home {
    folder: TempDir,
    /// Where the server looks for programs; as this program does, unless told.
    search_path: Option<PathBuf>,
}

impl Home {
    pub(crate) fn new(arguments: &RunArguments) -> anyhow::Result<Self> {
        Self::on(arguments, "")
    }

    /// With further settings.
    pub(crate) fn on(arguments: &RunArguments, settings: &str) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("store-").tempdir_in(&arguments.data)?;
        let chunks = arguments.chunks;
        let config = format!(
            "[agents.bench]\nruntime = \"echo\"\nreply_bytes = {REPLY_BYTES}\n\n\
             [agents.stream]\nruntime = \"echo\"\nchunks = {chunks}\nchunk_bytes = {CHUNK_BYTES}\ncoalesce = false\n\n{settings}"
        );
        fs::write(folder.path().join("config.toml"), config)?;
        Ok(Self { folder, search_path: None })
    }

    /// The same, for a server that finds only these programs.
    pub(crate) fn with_search_path(self, path: PathBuf) -> Self {
        Self { search_path: Some(path), ..self }
    }

    /// Brings the database of its settings up to date, as its owner.
    pub(crate) async fn migrate(&self, arguments: &RunArguments) -> anyhow::Result<()> {
        let mut command = Command::new(&arguments.skein);
        let migrated = command.args(["migrate", "up", "--home"]).arg(self.path()).output().await?;
        let told = String::from_utf8_lossy(&migrated.stderr);
        ensure!(migrated.status.success(), "the database cannot be migrated: {told}");
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The database with the sessions; an index, if there is one, is a file of its own.
    pub(crate) fn database(&self) -> anyhow::Result<PathBuf> {
        for entry in fs::read_dir(self.path())? {
            let path = entry?.path();
            let is_database = path.extension().is_some_and(|extension| extension == "db");
            if is_database && !path.ends_with("index.db") {
                return Ok(path);
            }
        }
        anyhow::bail!("no database in {}", self.path().display())
    }
}

/// A server that this program started.
pub(crate) struct Server {
    child: Child,
    /// Kept open, so that the server can write to it.
    _stdout: BufReader<ChildStdout>,
    pub(crate) pid: u32,
    pub(crate) endpoint: Endpoint,
    /// From the start of the process to its first 200 on the health path.
    pub(crate) ready_after: Duration,
}

/// The line that a server prints when it is ready.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ready {
    url: String,
    token_file: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Created {
    id: String,
}

impl Server {
    pub(crate) async fn start(
        arguments: &RunArguments,
        subject: Subject,
        home: &Home,
    ) -> anyhow::Result<Self> {
        let mut command = match subject {
            Subject::Skein => {
                let mut command = Command::new(&arguments.skein);
                command.args(["serve", "--listen", "127.0.0.1:0", "--json"]);
                command
            }
            Subject::Limit => {
                fs::copy(&arguments.empty_store, home.path().join(limit::DATABASE))?;
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["limit", "--chunks", &arguments.chunks.to_string()]);
                command
            }
        };
        let log = fs::File::create(home.path().join("stderr.log"))?;
        command.arg("--home").arg(home.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        if let Some(path) = &home.search_path {
            command.env("PATH", path);
        }
        let started_at = Instant::now();
        let mut child = command.stderr(log).kill_on_drop(true).spawn().context("cannot start")?;
        let pid = child.id().context("the server ended at once")?;
        let mut stdout = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut line = String::new();
        timeout(START_LIMIT, stdout.read_line(&mut line)).await.context("not ready in time")??;
        let ready: Ready = serde_json::from_str(&line).with_context(|| {
            let log = fs::read_to_string(home.path().join("stderr.log")).unwrap_or_default();
            format!("{} did not become ready: {line}{log}", subject.name())
        })?;
        let endpoint = endpoint(&ready)?;
        Connection::open(&endpoint).await?.get("/readyz").await?;
        let ready_after = started_at.elapsed();
        Ok(Self { child, _stdout: stdout, pid, endpoint, ready_after })
    }

    pub(crate) async fn start_skein(arguments: &RunArguments, home: &Home) -> anyhow::Result<Self> {
        Self::start(arguments, Subject::Skein, home).await
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        Connection::open(&self.endpoint).await
    }

    /// Ends the server politely and waits for it.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.context("no pid")?, rustix::process::Signal::TERM)?;
        let status = timeout(STOP_LIMIT, self.child.wait()).await.context("does not end")??;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}

/// Starts Skein once and gives the home with the empty store that it made.
pub(crate) async fn empty_store(arguments: &RunArguments) -> anyhow::Result<Home> {
    let home = Home::new(arguments)?;
    Server::start(arguments, Subject::Skein, &home).await?.stop().await?;
    Ok(home)
}

fn endpoint(ready: &Ready) -> anyhow::Result<Endpoint> {
    let address = ready.url.strip_prefix("http://").context("unexpected url")?;
    let token = match &ready.token_file {
        Some(file) => Some(fs::read_to_string(file)?.trim().to_owned()),
        None => None,
    };
    Ok(Endpoint { address: address.trim_end_matches('/').parse()?, token })
}

/// A new session of this agent; gives its id.
pub(crate) async fn create_session(
    connection: &mut Connection,
    agent: &str,
) -> anyhow::Result<String> {
    let body = format!(r#"{{"agent":"{agent}"}}"#);
    let created: Created = connection.post_json("/api/sessions", body.as_bytes()).await?;
    Ok(created.id)
}

/// The body of a request for one turn, with an instruction of its own.
pub(crate) fn turn_body(session: &str, noise: &mut Noise) -> String {
    let instruction = noise.text(INSTRUCTION_BYTES);
    format!(
        r#"{{"client":"cli","agent":"bench","sessionId":"{session}","instruction":"{instruction}"}}"#
    )
}

/// Runs one turn and checks that it was answered.
pub(crate) async fn run_turn(
    connection: &mut Connection,
    session: &str,
    noise: &mut Noise,
) -> anyhow::Result<()> {
    let body = turn_body(session, noise);
    let answer = connection.post("/api/ai/agent/execute", body.as_bytes()).await?;
    let is_answer = memchr::memmem::find(answer, br#""kind":"answer""#).is_some();
    ensure!(
        is_answer && answer.len() > REPLY_BYTES,
        "not an answer: {}",
        String::from_utf8_lossy(answer)
    );
    Ok(())
}
