//! Agents that people use, end to end without a key: Gemini CLI and codex, with aimock as their model.
//!
//! `scripts/agents/check` installs them and sets `SKEIN_TEST_AGENTS`; without it these tests say that they are skipped.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    desk::{Desk, Setup},
    harness::eventually,
};

/// A model on a loopback port. It ends with its standard input.
struct Model {
    child: Child,
    url: String,
}

impl Model {
    fn start(installed: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/agents/model.mjs");
        let mut child = Command::new("node")
            .arg(script)
            .arg(installed)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        Self { child, url: ready["url"].as_str().unwrap().to_owned() }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}

/// An agent with its model.
struct Real {
    desk: Desk,
    /// What makes it write the note, after it has asked.
    write: &'static str,
    _model: Model,
}

/// What the model says to hello, in several pieces.
const HELLO: &str = "Hello from the model.";

#[expect(clippy::disallowed_methods, reason = "where agents are comes from the tests' script")]
fn installed() -> Option<PathBuf> {
    let installed = std::env::var_os("SKEIN_TEST_AGENTS").map(PathBuf::from);
    if installed.is_none() {
        eprintln!(
            "skipped: SKEIN_TEST_AGENTS is not set; scripts/agents/check sets it, or says why it cannot"
        );
    }
    installed
}

fn program(installed: &Path, name: &str) -> String {
    installed.join("node_modules/.bin").join(name).to_str().unwrap().to_owned()
}

async fn gemini() -> Option<Real> {
    let installed = installed()?;
    let model = Model::start(&installed);
    let command = [&program(&installed, "gemini"), "--acp", "-m", "gemini-2.5-flash"];
    let variables = [("GEMINI_API_KEY", "fake"), ("GOOGLE_GEMINI_BASE_URL", model.url.as_str())];
    let setup = Setup::real(command.map(str::to_owned).to_vec(), &variables);
    Some(Real { desk: setup.start().await, write: "Gemini, write the note.", _model: model })
}

async fn codex() -> Option<Real> {
    let installed = installed()?;
    let model = Model::start(&installed);
    let mut command = vec![program(&installed, "codex-acp")];
    for (name, value) in [
        ("model", "gpt-5"),
        ("model_provider", "local"),
        ("model_providers.local.name", "local"),
        ("model_providers.local.base_url", &format!("{}/v1", model.url)),
        ("model_providers.local.env_key", "LOCAL_KEY"),
        ("model_providers.local.wire_api", "responses"),
    ] {
        command.extend(["-c".to_owned(), format!("{name}={value:?}")]);
    }
    let setup = Setup::real(command, &[("LOCAL_KEY", "fake")]);
    Some(Real { desk: setup.start().await, write: "Codex, write the note.", _model: model })
}

#[tokio::test]
async fn gemini_runs_from_its_creation_to_its_completion() {
    let Some(mut real) = gemini().await else { return };
    from_creation_to_completion(&mut real).await;
    let session = real.desk.create().await;
    real.desk.said(&session, "Say hello.").await;
    assert_eq!(
        real.desk.messages(&session).await,
        [
            ("user".to_owned(), json!({"type": "text", "text": "Say hello."})),
            ("agent".to_owned(), json!({"type": "text", "text": HELLO, "partial": false})),
        ]
    );
}

#[tokio::test]
async fn codex_runs_from_its_creation_to_its_completion() {
    let Some(mut real) = codex().await else { return };
    from_creation_to_completion(&mut real).await;
}

async fn from_creation_to_completion(real: &mut Real) {
    let desk = &mut real.desk;
    let body = json!({"repoId": desk.repo});
    let created = desk.api.post("/api/sessions", body).await.expect(201).json();
    let session = created["id"].as_str().unwrap();

    let said = desk.said(session, "Say hello.").await;
    let active = desk.session(session).await;
    let path = format!("/api/sessions/{session}/complete");
    let completed = desk.api.post(&path, json!({})).await.expect(200).json();
    desk.nothing_runs().await;

    assert_eq!(created["status"], "active");
    assert!(said.ends_with(HELLO), "{said}");
    assert_eq!(active["state"], "active");
    assert!(active["providerSessionId"].is_string(), "{active}");
    assert_eq!(completed["status"], "completed");
    let deltas = desk.events(session, "message.delta").await;
    let streamed: String = deltas.iter().map(|delta| delta["text"].as_str().unwrap()).collect();
    assert_eq!(streamed, said, "the transcript is in the log");
    desk.assert_sound();
}

#[tokio::test]
async fn gemini_writes_what_it_is_allowed_to() {
    if let Some(mut real) = gemini().await {
        allowed(&mut real).await;
    }
}

#[tokio::test]
async fn codex_writes_what_it_is_allowed_to() {
    if let Some(mut real) = codex().await {
        allowed(&mut real).await;
    }
}

async fn allowed(real: &mut Real) {
    let desk = &mut real.desk;
    let session = desk.create().await;
    let turn = desk.api.prompt(&session, real.write).await;

    let asked = asked(desk, &session).await;
    let before = desk.file("note.txt").exists();
    answer(desk, &session, &asked, "allow_once").await;
    let turn = desk.api.finished(&session, &turn).await;

    assert!(!before, "it asks first");
    assert_eq!(turn["status"]["key"], "completed", "{turn}");
    assert_eq!(fs::read_to_string(desk.file("note.txt")).unwrap(), "yarn\n");
    let said = desk.said_in(&session, turn["id"].as_str().unwrap()).await;
    assert!(said.ends_with("The note is written."), "{said}");
    let tools = desk.contents(&session, "tool").await;
    assert_eq!(tools.len(), 1, "{tools:?}");
    assert!(tools[0].to_string().contains("note.txt"), "{tools:?}");
    desk.assert_sound();
}

#[tokio::test]
async fn gemini_does_not_write_what_it_may_not() {
    if let Some(mut real) = gemini().await {
        rejected(&mut real).await;
    }
}

#[tokio::test]
async fn codex_does_not_write_what_it_may_not() {
    if let Some(mut real) = codex().await {
        rejected(&mut real).await;
    }
}

async fn rejected(real: &mut Real) {
    let desk = &mut real.desk;
    let session = desk.create().await;
    let turn = desk.api.prompt(&session, real.write).await;

    let asked = asked(desk, &session).await;
    answer(desk, &session, &asked, "reject_once").await;
    desk.api.finished(&session, &turn).await;
    let next = desk.said(&session, "Say hello.").await;

    assert!(!desk.file("note.txt").exists());
    assert!(next.ends_with(HELLO), "{next}");
    let tools = desk.contents(&session, "tool").await;
    assert_eq!(tools.len(), 1, "the call is closed: {tools:?}");
    desk.assert_sound();
}

#[tokio::test]
async fn gemini_is_cancelled_in_the_middle_of_a_sentence() {
    if let Some(mut real) = gemini().await {
        cancelled(&mut real).await;
    }
}

#[tokio::test]
async fn codex_is_cancelled_in_the_middle_of_a_sentence() {
    if let Some(mut real) = codex().await {
        cancelled(&mut real).await;
    }
}

async fn cancelled(real: &mut Real) {
    let desk = &mut real.desk;
    let session = desk.create().await;
    let turn = desk.api.prompt(&session, "Talk for long.").await;
    let mut stream = desk.api.follow(&session, 0).await;
    stream.until(|frame| frame.event == "message.delta" && frame.data.contains("one")).await;

    let path = format!("/api/sessions/{session}/turns/{turn}/cancel");
    desk.api.post(&path, json!({})).await.expect(200);
    let turn = desk.api.finished(&session, &turn).await;
    let next = desk.said(&session, "Say hello.").await;

    assert_eq!(turn["errorCode"], "cancelled", "{turn}");
    let said = desk.said_in(&session, turn["id"].as_str().unwrap()).await;
    assert!(said.contains("one") && !said.contains("sixteen"), "{said}");
    assert!(next.ends_with(HELLO), "{next}");
    desk.assert_sound();
}

#[tokio::test]
async fn gemini_goes_on_after_a_kill_of_the_server() {
    if let Some(mut real) = gemini().await {
        killed(&mut real).await;
    }
}

#[tokio::test]
async fn codex_goes_on_after_a_kill_of_the_server() {
    if let Some(mut real) = codex().await {
        killed(&mut real).await;
    }
}

async fn killed(real: &mut Real) {
    let desk = &mut real.desk;
    let session = desk.create().await;
    desk.said(&session, "Say hello.").await;
    let before = (desk.session(&session).await, desk.messages(&session).await);

    desk.server.kill();
    desk.nothing_runs().await;
    make_chats_older(desk.server.home().path());
    desk.restart().await;
    let suspended = desk.session(&session).await;
    let said = desk.said(&session, "What did I say?").await;

    assert_eq!(suspended["state"], "suspended");
    assert_eq!(suspended["metadata"]["suspend_reason"], "server_restart");
    assert_eq!(suspended["providerSessionId"], before.0["providerSessionId"]);
    assert!(said.ends_with("You said hello."), "{said}");
    let all = desk.messages(&session).await;
    assert_eq!(all[..before.1.len()], before.1);
    assert!(
        !format!("{:?}", &all[before.1.len()..]).contains(HELLO),
        "nothing is stored twice: {all:?}"
    );
    assert_eq!(desk.session(&session).await["providerSessionId"], before.0["providerSessionId"]);
    desk.assert_sound();
}

/// Gemini names the file of a chat by the minute in which it began. A process that loads the chat in the same minute writes a new
/// one over it; people are not that quick.
fn make_chats_older(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && !path.is_symlink() {
            make_chats_older(&path);
        }
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix("session-20")) else {
            continue;
        };
        if let Some((_, chat)) = rest.rsplit_once('-').filter(|_| rest.ends_with(".jsonl")) {
            let older = format!("session-2026-01-01T00-00-{chat}");
            fs::rename(&path, path.with_file_name(older)).unwrap();
        }
    }
}

async fn asked(desk: &Desk, session: &str) -> Value {
    let path = format!("/api/sessions/{session}/permissions");
    eventually("a permission is asked for", async || {
        let list = desk.api.get(&path).await.expect(200).json();
        list.as_array().unwrap().iter().find(|one| one["state"] == "pending").cloned()
    })
    .await
}

async fn answer(desk: &Desk, session: &str, asked: &Value, kind: &str) {
    let options = asked["options"].as_array().unwrap();
    let option = options.iter().find(|option| option["kind"] == kind).unwrap();
    let request = asked["requestId"].as_str().unwrap();
    let path = format!("/api/sessions/{session}/permissions/{request}");
    desk.api.post(&path, json!({"optionId": option["optionId"]})).await.expect(200);
}
