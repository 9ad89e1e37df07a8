//! Starts the real binary in a home of its own, and talks to it as any client would.

#![allow(dead_code, reason = "every test program uses another part of this module")]

mod engine;
#[path = "../../../storage/tests/postgres/server.rs"]
pub(crate) mod postgres;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::{Arc, mpsc},
    time::Duration,
};

use reqwest::{Method, RequestBuilder, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) use engine::Engine;
use postgres::Database;

/// A start takes milliseconds; this only bounds how long a broken one is waited for.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than a drain may take.
const EXIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A directory that is a Skein home for as long as somebody holds it, and where its sessions are kept.
#[derive(Debug, Clone)]
pub(crate) struct TestHome {
    directory: Arc<TempDir>,
    database: Option<Arc<Database>>,
}

/// What one run of the binary did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A running `skein serve`. It is killed, by its id, when this is dropped.
pub(crate) struct TestServer {
    home: TestHome,
    environment: Vec<(String, String)>,
    process: Option<Process>,
    url: String,
    token: String,
    http: reqwest::Client,
}

struct Process {
    child: Child,
    /// Held open so that the server can write to it for as long as it lives.
    stdout: Option<BufReader<ChildStdout>>,
}

impl TestHome {
    /// An empty home, on the engine of this program.
    ///
    /// Where there is no PostgreSQL, a program that needs it ends here, successfully: none of its tests can be run.
    pub(crate) fn new() -> Self {
        match Engine::of_this_program() {
            Engine::Sqlite => Self::in_database(None),
            Engine::Postgres => Self::on_postgres().unwrap_or_else(|| std::process::exit(0)),
        }
    }

    /// An empty home whose sessions are in a migrated database. `None` where there is no PostgreSQL.
    pub(crate) fn on_postgres() -> Option<Self> {
        engine::fresh_database().map(|database| Self::in_database(Some(database)))
    }

    /// An empty home whose sessions are in this database, which is removed with it, or in a file.
    pub(crate) fn in_database(database: Option<Database>) -> Self {
        let directory = Arc::new(TempDir::with_prefix("skein-test-").unwrap());
        Self { directory, database: database.map(Arc::new) }
    }

    /// Another empty home, whose sessions are in the same database.
    pub(crate) fn beside(&self) -> Self {
        Self { database: self.database.clone(), ..Self::in_database(None) }
    }

    /// A home with this `config.toml`.
    pub(crate) fn with_config(config: &str) -> Self {
        let home = Self::new();
        home.write_config(config);
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// The database that the sessions are in.
    #[track_caller]
    pub(crate) fn database(&self) -> &Database {
        self.database.as_deref().expect("a home in PostgreSQL")
    }

    pub(crate) fn write_config(&self, config: &str) {
        fs::write(self.file("config.toml"), config).unwrap();
    }

    /// The secret in the token file.
    pub(crate) fn token(&self) -> String {
        fs::read_to_string(self.file("token")).unwrap().trim().to_owned()
    }

    /// The binary on this home, with none of the settings of whoever runs the tests.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = skein();
        command.env("SKEIN_HOME", self.path()).args(arguments);
        if let Some(database) = &self.database {
            command.envs(engine::environment(database));
        }
        command
    }

    /// Runs the binary on this home to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(&mut self.command(arguments))
    }
}

impl Ran {
    /// Runs a command to its end.
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = command.stdin(Stdio::null()).output().unwrap();
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// What it printed, as JSON; fails unless it succeeded.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!("not JSON ({error}): {}\nstderr: {}", self.stdout, self.stderr)
        })
    }
}

/// The binary, with none of the settings of whoever runs the tests.
pub(crate) fn skein() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skein"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("SKEIN_") || text.starts_with("AGENT_") {
            command.env_remove(&name);
        }
    }
    command
}

impl TestServer {
    /// On a fresh home with default settings.
    pub(crate) async fn start() -> Self {
        Self::on(TestHome::new()).await
    }

    /// On a fresh home with this `config.toml`.
    pub(crate) async fn with_config(config: &str) -> Self {
        Self::on(TestHome::with_config(config)).await
    }

    /// On a home that may have been used before.
    pub(crate) async fn on(home: TestHome) -> Self {
        Self::on_with(home, &[]).await
    }

    /// On a home, with more environment variables.
    pub(crate) async fn on_with(home: TestHome, environment: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut server = Self {
            home,
            environment: environment.iter().map(owned).collect(),
            process: None,
            url: String::new(),
            token: String::new(),
            http: http_client(),
        };
        server.start_process().await;
        server
    }

    /// Starts again on the same home, on another port. A server that still runs is killed first.
    pub(crate) async fn restart(&mut self) {
        self.kill();
        self.start_process().await;
    }

    pub(crate) fn home(&self) -> &TestHome {
        &self.home
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.as_ref().expect("the server runs").child.id()
    }

    /// `127.0.0.1:PORT`, for tests that need a connection of their own.
    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| process.child.try_wait().unwrap().is_none())
    }

    /// What the server wrote to stderr, over all of its starts.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.home.file("test-server.log")).unwrap_or_default()
    }

    /// Ends the server as a power cut would, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Only fails when it has ended already.
            drop(process.child.kill());
            process.child.wait().unwrap();
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Asks the server to stop, as a service manager would, and waits until it has.
    pub(crate) async fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.exited().await
    }

    /// Waits until the server has ended by itself.
    pub(crate) async fn exited(&mut self) -> ExitStatus {
        let mut process = self.process.take().expect("the server runs");
        let pid = process.child.id();
        let waiting = tokio::task::spawn_blocking(move || process.child.wait().unwrap());
        match tokio::time::timeout(EXIT_TIMEOUT, waiting).await {
            Ok(status) => status.unwrap(),
            Err(_) => {
                let raw = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
                let _ = kill_process(raw, Signal::KILL);
                panic!("the server did not exit in {EXIT_TIMEOUT:?}; its log:\n{}", self.log());
            }
        }
    }

    /// A request to this server with the token of its home.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token)
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        send(self.request(Method::POST, path).json(&body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> (StatusCode, Value) {
        send(self.request(Method::PATCH, path).json(&body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> (StatusCode, Value) {
        send(self.request(Method::DELETE, path)).await
    }

    async fn start_process(&mut self) {
        let mut command = self.home.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.home.file("test-server.log"))
            .unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        // Kept at once, so that it is killed whatever happens from here on.
        let process = self.process.insert(Process { child, stdout: None });
        let (line, stdout) = first_line(stdout).await;
        process.stdout = Some(stdout);
        let ready: Value = serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("not ready, but {line:?}; the log:\n{}", self.log()));
        self.url = ready["url"].as_str().unwrap().to_owned();
        let token_file = ready["tokenFile"].as_str().unwrap();
        self.token = fs::read_to_string(token_file).unwrap().trim().to_owned();
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends, and reads the answer as JSON; `null` when there is no body.
pub(crate) async fn send(request: RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.unwrap();
    let status = response.status();
    let body = response.text().await.unwrap();
    let body = match body.as_str() {
        "" => Value::Null,
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
    };
    (status, body)
}

/// A client with a bound on every wait.
pub(crate) fn http_client() -> reqwest::Client {
    // Whichever test comes first installs it.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder()
        .no_proxy()
        .connect_timeout(Duration::from_secs(5))
        .read_timeout(Duration::from_secs(60))
        .build()
        .unwrap()
}

/// The first line, or what there was when the process ended or time was up.
async fn first_line(stdout: ChildStdout) -> (String, BufReader<ChildStdout>) {
    let (sender, receiver) = mpsc::sync_channel(1);
    let mut reader = BufReader::new(stdout);
    std::thread::spawn(move || {
        let mut line = String::new();
        drop(reader.read_line(&mut line));
        drop(sender.send((line, reader)));
    });
    let waiting = tokio::task::spawn_blocking(move || receiver.recv_timeout(READY_TIMEOUT));
    waiting.await.unwrap().expect("the server says in time that it is ready")
}
