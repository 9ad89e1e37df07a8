//! A server with a scripted agent, a repository for it to work in, and a look at what the agent was told.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::{
    binary::scripted_agent,
    common::{TestHome, TestServer},
    harness::{Api, eventually},
    processes::{Found, tagged},
};

const JOURNAL: &str = "journal.jsonl";
/// How long a process may outlive the server it belongs to.
const LINGER: Duration = Duration::from_secs(10);

/// The agent is called `scripted`, the repository `web`. When it is dropped, no process of the agent may be left.
pub(crate) struct Desk {
    pub(crate) server: TestServer,
    pub(crate) api: Api,
    pub(crate) repo: String,
    workspace: TempDir,
    tag: String,
}

/// What is special about a desk.
#[derive(Debug)]
pub(crate) struct Setup {
    /// On the command line, or in the environment, of all processes of the agent.
    tag: String,
    command: Vec<String>,
    sessions: String,
    agent: String,
    environment: Vec<(String, String)>,
}

impl Default for Setup {
    fn default() -> Self {
        let tag = fresh_tag();
        let program = scripted_agent().to_str().unwrap().to_owned();
        let flags = ["--tag", &tag, "--journal", JOURNAL].map(str::to_owned);
        let command = [program].into_iter().chain(flags).collect();
        Self::of(tag, command, String::new())
    }
}

impl Setup {
    /// An agent that this project did not write, with more environment variables.
    pub(crate) fn real(command: Vec<String>, variables: &[(&str, &str)]) -> Self {
        let tag = fresh_tag();
        let mut agent = format!("env = {{ SKEIN_TEST_TAG = {tag:?}");
        for (name, value) in variables {
            agent += &format!(", {name} = {value:?}");
        }
        Self::of(tag, command, agent + " }\n")
    }

    fn of(tag: String, command: Vec<String>, agent: String) -> Self {
        Self { tag, command, sessions: String::new(), agent, environment: Vec::new() }
    }

    /// More flags of the agent.
    pub(crate) fn flags(mut self, flags: &[&str]) -> Self {
        self.command.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self
    }

    /// A line of the section `[sessions]`.
    pub(crate) fn sessions(mut self, line: &str) -> Self {
        self.sessions += &format!("{line}\n");
        self
    }

    /// A line of the section of the agent.
    pub(crate) fn agent(mut self, line: &str) -> Self {
        self.agent += &format!("{line}\n");
        self
    }

    pub(crate) fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) async fn start(self) -> Desk {
        let Self { tag, command, .. } = self;
        let workspace = TempDir::with_prefix("skein-work-").unwrap();
        let root = workspace.path().canonicalize().unwrap();
        let web = root.join("web");
        git_init(&web);
        let home = TestHome::with_config(&format!(
            "[workspace]\nroot = {root:?}\n[sessions]\n{}[agents.scripted]\nruntime = \"acp\"\n\
             command = {command:?}\n{}",
            self.sessions, self.agent
        ));
        let environment: Vec<_> =
            self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let server = TestServer::on_with(home, &environment).await;
        let api = Api::of(&server);
        let body = json!({"name": "web", "path": web});
        let repo = api.post("/api/repos", body).await.expect(201).text("id");
        Desk { server, api, repo, workspace, tag }
    }
}

impl Desk {
    /// With these flags of the agent, and default settings.
    pub(crate) async fn start(flags: &[&str]) -> Self {
        Setup::default().flags(flags).start().await
    }

    /// The directory that the agent works in.
    pub(crate) fn work_tree(&self) -> PathBuf {
        self.workspace.path().canonicalize().unwrap().join("web")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.work_tree().join(name)
    }

    /// Starts the server again as after a power cut.
    pub(crate) async fn restart(&mut self) {
        self.server.restart().await;
        self.api = Api::of(&self.server);
    }

    /// A new session's id.
    pub(crate) async fn create(&self) -> String {
        self.api.create(json!({"repoId": self.repo})).await
    }

    /// A new session whose agent is there.
    pub(crate) async fn active(&self) -> String {
        let session = self.create().await;
        self.until_state(&session, "active").await;
        session
    }

    pub(crate) async fn session(&self, id: &str) -> Value {
        self.api.get(&format!("/api/sessions/{id}")).await.expect(200).json()
    }

    pub(crate) async fn until_state(&self, id: &str, state: &str) -> Value {
        eventually(&format!("the session is {state}"), async || {
            let session = self.session(id).await;
            (session["state"] == state).then_some(session)
        })
        .await
    }

    /// The turn of this instruction, once it has ended.
    pub(crate) async fn run(&self, session: &str, text: &str) -> Value {
        let turn = self.api.prompt(session, text).await;
        self.api.finished(session, &turn).await
    }

    /// As [`Self::run`], for a turn that must succeed: what the agent said in it.
    pub(crate) async fn said(&self, session: &str, text: &str) -> String {
        let turn = self.run(session, text).await;
        assert_eq!(turn["status"]["key"], "completed", "{turn}");
        self.said_in(session, turn["id"].as_str().unwrap()).await
    }

    /// All texts of the agent in a turn.
    pub(crate) async fn said_in(&self, session: &str, turn: &str) -> String {
        let messages = self.raw_messages(session).await;
        let of_turn = messages
            .iter()
            .filter(|message| message["turnId"] == turn && message["role"] == "agent");
        of_turn.map(|message| message["content"]["text"].as_str().unwrap()).collect()
    }

    /// Role and content of every message.
    pub(crate) async fn messages(&self, session: &str) -> Vec<(String, Value)> {
        let messages = self.raw_messages(session).await.into_iter();
        messages
            .map(|message| {
                (message["role"].as_str().unwrap().to_owned(), message["content"].clone())
            })
            .collect()
    }

    async fn raw_messages(&self, session: &str) -> Vec<Value> {
        let path = format!("/api/sessions/{session}/messages");
        self.api.get(&path).await.expect(200).json().as_array().unwrap().clone()
    }

    /// The contents of the messages of this type.
    pub(crate) async fn contents(&self, session: &str, kind: &str) -> Vec<Value> {
        let contents = self.messages(session).await.into_iter().map(|(_, content)| content);
        contents.filter(|content| content["type"] == kind).collect()
    }

    /// The data of the events of this type.
    pub(crate) async fn events(&self, session: &str, kind: &str) -> Vec<Value> {
        let log = self.api.log(session).await.json().into_iter();
        log.filter(|event| event["type"] == kind).map(|event| event["data"].clone()).collect()
    }

    /// Waits until something is in the log.
    pub(crate) async fn until_event(&self, session: &str, kind: &str) -> Value {
        let mut stream = self.api.follow(session, 0).await;
        let frames = stream.until(|frame| frame.event == kind).await;
        frames.0.last().unwrap().json()["data"].clone()
    }

    /// What happened to the agents of this desk.
    pub(crate) fn journal(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.file(JOURNAL)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The parameters of the requests and notifications of this method.
    pub(crate) fn received(&self, method: &str) -> Vec<Value> {
        let journal = self.journal().into_iter();
        let received = journal.filter(|line| line["received"]["method"] == method);
        received.map(|line| line["received"]["params"].clone()).collect()
    }

    /// The agents, what holds them, and what they have started. What holds them knows their homes, but not their command.
    pub(crate) fn processes(&self) -> Vec<Found> {
        let homes = self.server.home().file("agents/");
        tagged(&[&self.tag, homes.to_str().unwrap()])
    }

    /// What is left of a server that was killed, also of one that was about to start something.
    pub(crate) fn left_behind(&self) -> Vec<Found> {
        tagged(&[&self.tag, self.server.home().path().to_str().unwrap()])
    }

    /// Waits until no process is left, detached ones included.
    pub(crate) async fn nothing_runs(&self) {
        eventually("no process is left", async || self.processes().is_empty().then_some(())).await;
    }

    /// How long it took until no process was left.
    pub(crate) async fn time_until_nothing_runs(&self) -> Duration {
        let since = Instant::now();
        self.nothing_runs().await;
        since.elapsed()
    }

    /// The server has neither ended nor lost a task to a panic.
    #[track_caller]
    pub(crate) fn assert_sound(&mut self) {
        assert!(self.server.is_running(), "{}", self.server.log());
        assert!(!self.server.log().contains("panicked"), "{}", self.server.log());
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.server.kill();
        let deadline = std::time::Instant::now() + LINGER;
        let mut left = self.left_behind();
        while !left.is_empty() && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
            left = self.left_behind();
        }
        left.iter().for_each(Found::kill);
        if !std::thread::panicking() {
            assert_eq!(left, [], "processes outlive their server");
        }
    }
}

/// A word that is on no other command line.
fn fresh_tag() -> String {
    let name = TempDir::with_prefix("agent-tag-").unwrap();
    name.path().file_name().and_then(|name| name.to_str()).unwrap().to_owned()
}

/// Makes a repository as git would.
fn git_init(path: &Path) {
    let status = std::process::Command::new("git").args(["init", "-q"]).arg(path).status().unwrap();
    assert!(status.success());
}
