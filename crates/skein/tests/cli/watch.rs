//! `skein session watch` follows a session over a server, and tells what is stored without one.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    sync::mpsc,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::{TestHome, TestServer};

/// Reached only when something is broken.
const LINE_TIMEOUT: Duration = Duration::from_secs(30);

/// A watch in the background. It is killed, by its id, when this is dropped.
struct Watch {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Watch {
    fn start(home: &TestHome, session: &str, arguments: &[&str]) -> Self {
        let mut command = home.command(&["session", "watch", session]);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::sync_channel(1024);
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    /// The next line, or nothing at the end.
    fn line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(LINE_TIMEOUT) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("nothing came in {LINE_TIMEOUT:?}"),
        }
    }

    /// Reads events up to one of this type; what was read.
    fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut events: Vec<Value> = Vec::new();
        while events.last().is_none_or(|event| event["type"] != kind) {
            let line = self.line();
            let line = line.unwrap_or_else(|| panic!("no {kind} came after {events:?}"));
            events.push(serde_json::from_str(&line).unwrap());
        }
        events
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

async fn prompt(server: &TestServer, session: &str, text: &str) {
    let path = format!("/api/sessions/{session}/prompt");
    let (status, _) = server.post(&path, json!({"text": text})).await;
    assert_eq!(status.as_u16(), 202);
}

async fn new_session(server: &TestServer) -> String {
    let (_, session) = server.post("/api/sessions", json!({})).await;
    session["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_as_lines_until_the_session_ends() {
    let server = TestServer::start().await;
    let session = new_session(&server).await;
    let mut watch = Watch::start(server.home(), &session, &["--after", "0", "--json"]);
    watch.until("session.created");

    prompt(&server, &session, "hello").await;
    let events = watch.until("turn.completed");
    server.delete(&format!("/api/sessions/{session}")).await;
    watch.until("session.cancelled");

    let seqs: Vec<_> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(seqs.is_sorted_by(|a, b| a + 1 == *b), "{seqs:?}");
    assert_eq!(watch.line(), None);
    assert_eq!(watch.child.wait().unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn text_is_what_the_agent_says() {
    let server = TestServer::with_config("[sessions]\ndefault_agent = 'echo'\n").await;
    let (_, session) = server.post("/api/sessions", json!({"agent": "echo"})).await;
    let session = session["id"].as_str().unwrap().to_owned();
    prompt(&server, &session, "hello there").await;
    let mut watch = Watch::start(server.home(), &session, &["--after", "0"]);

    let said = watch.line();

    assert_eq!(said.as_deref(), Some("hello there"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_goes_on_after_a_restart_without_gap_or_repetition() {
    let mut server = TestServer::start().await;
    let session = new_session(&server).await;
    let mut watch = Watch::start(server.home(), &session, &["--after", "0", "--json"]);
    let mut events = watch.until("session.created");

    prompt(&server, &session, "before").await;
    events.extend(watch.until("turn.completed"));
    server.restart().await;
    prompt(&server, &session, "after").await;
    events.extend(watch.until("turn.completed"));

    let seqs: Vec<_> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_a_watch_with_130() {
    let server = TestServer::start().await;
    let session = new_session(&server).await;
    let mut watch = Watch::start(server.home(), &session, &["--after", "0", "--json"]);
    watch.until("session.created");

    let pid = Pid::from_raw(i32::try_from(watch.child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();

    assert_eq!(watch.child.wait().unwrap().code(), Some(130));
}

#[test]
fn without_a_server_a_watch_tells_what_is_stored_and_ends() {
    let home = TestHome::new();
    let session = home.run(&["session", "new"]).stdout.trim().to_owned();

    let stored = home.run(&["session", "watch", &session, "--after", "0", "--json"]);
    let new = home.run(&["session", "watch", &session, "--json"]);

    let first: Value = serde_json::from_str(stored.stdout.lines().next().unwrap()).unwrap();
    assert_eq!((stored.code, &first["type"]), (Some(0), &json!("session.created")));
    assert_eq!((new.code, new.stdout.as_str()), (Some(0), ""));
}
