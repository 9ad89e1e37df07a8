//! SIGKILL cannot see a missing sync, since the kernel keeps what was written. A system call trace can.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    common::{TestHome, TestServer},
    harness::{AGENTS, Api},
    scale, trace,
};

const CALLS: &str = "trace=fsync,fdatasync,write,pwrite64,writev,pwritev,pwritev2,sendto,sendmsg";

/// A server that runs under `strace`. It is killed, by its id, when this is dropped.
struct Traced {
    strace: Child,
    server: Pid,
    url: String,
}

impl Traced {
    /// The reason is for people.
    fn start(home: &TestHome, trace: &Path) -> Result<Self, String> {
        let serve = home.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        let mut command = Command::new("strace");
        // As long as the largest page, so that marks in it are seen.
        command.args(["-f", "-y", "-s", "65536", "-e", CALLS, "-o"]).arg(trace);
        command.arg(serve.get_program()).args(serve.get_args());
        for (name, value) in serve.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut strace = command.spawn().map_err(|error| format!("strace: {error}"))?;
        let mut line = String::new();
        let mut stdout = BufReader::new(strace.stdout.take().unwrap());
        drop(stdout.read_line(&mut line));
        let Ok(ready) = serde_json::from_str::<Value>(&line) else {
            drop(strace.kill());
            let output = strace.wait_with_output().unwrap();
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        };
        let pid = i32::try_from(ready["pid"].as_i64().unwrap()).unwrap();
        let url = ready["url"].as_str().unwrap().to_owned();
        Ok(Self { strace, server: Pid::from_raw(pid).unwrap(), url })
    }

    fn stop(mut self) {
        kill_process(self.server, Signal::TERM).unwrap();
        self.strace.wait().unwrap();
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if self.strace.try_wait().is_ok_and(|status| status.is_none()) {
            // Only fails when it has ended in the meantime.
            let _ = kill_process(self.server, Signal::KILL);
            drop(self.strace.wait());
        }
    }
}

/// A home whose store is made, and a caller for whatever server runs on it next. What the first start
/// writes is not an acknowledgement.
async fn prepared_home() -> (TestHome, Api) {
    let mut server = TestServer::with_config(AGENTS).await;
    let prepared = (server.home().clone(), Api::of(&server));
    server.terminate().await;
    prepared
}

#[tokio::test]
async fn no_prompt_is_acknowledged_before_its_own_commit_is_synced() {
    let prompts = scale::choose(20, 500);
    let (home, api) = prepared_home().await;
    let mut server = TestServer::on(home.clone()).await;
    let prepared = Api::of(&server);
    let mut sessions = Vec::new();
    for _ in 0..4 {
        sessions.push(prepared.create(json!({"agent": "echo"})).await);
    }
    server.terminate().await;
    let file = home.file("trace.txt");
    let traced = match Traced::start(&home, &file) {
        Ok(traced) => traced,
        Err(reason) => return eprintln!("skipped, there is no trace to read here: {reason}"),
    };

    let api = Api { url: traced.url.clone(), ..api };
    let marks: Vec<String> = (0..prompts).map(|number| format!("mark-{number:05}-kram")).collect();
    for (mark, session) in marks.iter().zip(sessions.iter().cycle()) {
        api.enqueue(session, mark).await;
    }
    traced.stop();

    let findings = trace::read_marked(&fs::read_to_string(&file).unwrap(), &marks);
    eprintln!("{} prompts, {} syncs", findings.acknowledgements, findings.syncs);
    assert_eq!(findings.violations, []);
    assert_eq!(findings.acknowledgements, prompts);
}

#[tokio::test]
async fn no_acknowledgement_is_sent_before_its_commit_is_synced() {
    let requests = scale::choose(8, 200);
    let (home, api) = prepared_home().await;
    let file = home.file("trace.txt");
    let traced = match Traced::start(&home, &file) {
        Ok(traced) => traced,
        Err(reason) => return eprintln!("skipped, there is no trace to read here: {reason}"),
    };

    let api = Api { url: traced.url.clone(), ..api };
    let mut acknowledged = 0;
    for number in 0..requests {
        let session = api.create(json!({"name": number.to_string()})).await;
        let path = format!("/api/sessions/{session}");
        let body = json!({"sessionId": session, "instruction": format!("hello {number}")});
        api.post("/api/ai/agent/execute", body).await.expect(200);
        api.patch(&path, json!({"name": "changed"})).await.expect(200);
        api.post(&format!("{path}/suspend"), json!({})).await.expect(200);
        api.post(&format!("{path}/resume"), json!({})).await.expect(200);
        api.delete(&path).await.expect(200);
        acknowledged += 6;
    }
    traced.stop();

    let findings = trace::read(&fs::read_to_string(&file).unwrap());
    eprintln!(
        "{} acknowledgements, {} writes to the log, {} syncs",
        findings.acknowledgements, findings.writes, findings.syncs
    );
    assert_eq!(findings.violations, []);
    assert_eq!(findings.acknowledgements, acknowledged);
    assert!(findings.syncs >= acknowledged);
}
