//! The scripted agent as a process, driven over its standard input and output.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Reached only when something is broken.
const DEADLINE: Duration = Duration::from_secs(30);

/// A running agent, and a client that has sent it some requests.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    sent: u64,
}

impl Client {
    fn start(directory: &Path, flags: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_scripted-agent"))
            .args(flags)
            .current_dir(directory)
            .env("HOME", directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while stdout.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
                drop(sender.send(std::mem::take(&mut line)));
            }
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines, sent: 0 }
    }

    /// One that is ready for prompts, and its session.
    fn with_session(directory: &Path, flags: &[&str]) -> (Self, String) {
        let mut client = Self::start(directory, flags);
        client.call("initialize", json!({"protocolVersion": 1}));
        let made = client.call("session/new", json!({"cwd": directory, "mcpServers": []}));
        let session = made.last().unwrap()["result"]["sessionId"].as_str().unwrap().to_owned();
        (client, session)
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn request(&mut self, method: &str, params: Value) -> u64 {
        self.sent += 1;
        let id = self.sent;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.request("session/prompt", json!({"sessionId": session, "prompt": prompt}))
    }

    /// What comes up to the answer to a request, that included.
    fn call(&mut self, method: &str, params: Value) -> Vec<Value> {
        let id = self.request(method, params);
        self.until(|message| message["id"] == id && message["method"].is_null())
    }

    fn told(&mut self, session: &str, text: &str) -> Vec<Value> {
        let id = self.prompt(session, text);
        self.until(|message| message["id"] == id && message["method"].is_null())
    }

    fn line(&mut self) -> Option<Vec<u8>> {
        match self.lines.recv_timeout(DEADLINE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("nothing in {DEADLINE:?}"),
        }
    }

    fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut found = Vec::new();
        while let Some(line) = self.line() {
            let message: Value =
                serde_json::from_slice(&line).unwrap_or_else(|_| json!({"garbage": line.len()}));
            let last = fits(&message);
            found.push(message);
            if last {
                return found;
            }
        }
        panic!("its output ended after {found:?}");
    }

    fn exited(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The texts of the chunks of this kind.
fn texts(messages: &[Value], kind: &str) -> Vec<String> {
    let updates = messages.iter().map(|message| &message["params"]["update"]);
    let chunks = updates.filter(|update| update["sessionUpdate"] == kind);
    chunks.filter_map(|update| update["content"]["text"].as_str()).map(str::to_owned).collect()
}

fn said(messages: &[Value]) -> String {
    texts(messages, "agent_message_chunk").concat()
}

#[test]
fn a_turn_plays_the_lines_of_its_prompt() {
    let directory = TempDir::new().unwrap();
    let (mut client, session) = Client::with_session(directory.path(), &[]);

    let messages = client.told(
        &session,
        "think hm\nplan look|write\nsay hello \ntool t1 grep search {\"q\": \"a\"} -> {\"hits\": 1}\n\
         open-tool t2 run execute {}\nusage 3 4\nsay there\nstop max_tokens\nsay never",
    );

    let updates: Vec<_> =
        messages.iter().map(|message| message["params"]["update"].clone()).collect();
    let chunk = |kind: &str, text: &str| json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}});
    let step =
        |text: &str, status: &str| json!({"content": text, "priority": "medium", "status": status});
    let tool = |id: &str, title: &str, kind: &str, args: Value| {
        json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": kind,
               "status": "in_progress", "rawInput": args})
    };
    assert_eq!(
        updates[..updates.len() - 1],
        [
            chunk("agent_thought_chunk", "hm"),
            json!({"sessionUpdate": "plan", "entries": [step("look", "in_progress"), step("write", "pending")]}),
            chunk("agent_message_chunk", "hello"),
            tool("t1", "grep", "search", json!({"q": "a"})),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed", "rawOutput": {"hits": 1}}),
            tool("t2", "run", "execute", json!({})),
            json!({"sessionUpdate": "usage_update", "used": 7, "size": 200_000}),
            chunk("agent_message_chunk", "there"),
        ]
    );
    assert_eq!(
        messages.last().unwrap()["result"],
        json!({"stopReason": "max_tokens", "usage": {"totalTokens": 7, "inputTokens": 3, "outputTokens": 4}})
    );
}

#[test]
fn files_are_really_written_and_read_and_a_failure_is_said() {
    let directory = TempDir::new().unwrap();
    let (mut client, session) = Client::with_session(directory.path(), &[]);

    let messages =
        client.told(&session, "write a.txt one\nread a.txt\nread b.txt\ndiff a.txt two\npwd");

    assert_eq!(fs::read_to_string(directory.path().join("a.txt")).unwrap(), "two");
    let said = said(&messages);
    assert!(said.contains("write a.txt: ok: 3 bytesread a.txt: ok: one"), "{said}");
    assert!(said.contains("read b.txt: error: No such file"), "{said}");
    assert!(said.ends_with(directory.path().canonicalize().unwrap().to_str().unwrap()), "{said}");
    let diffs: Vec<_> = messages
        .iter()
        .map(|message| &message["params"]["update"]["content"][0])
        .filter(|content| content["type"] == "diff")
        .collect();
    assert_eq!(
        diffs,
        [&json!({"type": "diff", "path": "a.txt", "oldText": "one", "newText": "two"})]
    );
}

#[test]
fn a_permission_is_asked_before_its_call_and_decides_what_happens() {
    for (flags, option, reaction, expected) in [
        (["--ids", "numbers"], "yes", "silent", ("end_turn", true, "after")),
        (["--ids", "uuids"], "always", "silent", ("end_turn", true, "after")),
        (["--ids", "numbers"], "no", "go-on", ("end_turn", false, "p1 was not permitted")),
        (["--ids", "numbers"], "no", "silent", ("end_turn", false, "")),
        (["--ids", "numbers"], "no", "cancelled", ("cancelled", false, "")),
    ] {
        let directory = TempDir::new().unwrap();
        let (mut client, session) = Client::with_session(directory.path(), &flags);

        let prompt = client.prompt(&session, &format!("ask p1 edit a.txt {reaction}\nsay after"));
        let before = client.until(|message| message["method"] == "session/request_permission");
        let request = before.last().unwrap();
        assert_eq!(before.len(), 1, "{before:?}");
        assert_eq!(request["id"].is_string(), flags[1] == "uuids");
        let kinds: Vec<_> = request["params"]["options"]
            .as_array()
            .unwrap()
            .iter()
            .map(|option| option["kind"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["allow_once", "allow_always", "reject_once"]);
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
        client.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": outcome}));
        let messages = client.until(|message| message["id"] == prompt);

        let (reason, is_written, text) = expected;
        assert_eq!(messages.last().unwrap()["result"]["stopReason"], reason);
        assert_eq!(directory.path().join("a.txt").exists(), is_written);
        assert!(said(&messages).starts_with(text), "{}", said(&messages));
    }
}

#[test]
fn a_stalled_turn_ends_when_it_is_cancelled_unless_it_does_not_listen() {
    let directory = TempDir::new().unwrap();
    let (mut client, session) = Client::with_session(directory.path(), &[]);
    let (mut deaf, deaf_session) = Client::with_session(directory.path(), &["--ignore-cancel"]);

    let prompt = client.prompt(&session, "say a\nstall\nsay b");
    client.until(|message| message["method"] == "session/update");
    let cancel = |session: &str| json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}});
    client.send(&cancel(&session));
    let messages = client.until(|message| message["id"] == prompt);
    let slow = deaf.prompt(&deaf_session, "wait-for go\nsay done");
    deaf.send(&cancel(&deaf_session));
    fs::write(directory.path().join("go"), "").unwrap();
    let unheard = deaf.until(|message| message["id"] == slow);

    assert_eq!(messages.last().unwrap()["result"], json!({"stopReason": "cancelled"}));
    assert_eq!(said(&messages), "");
    assert_eq!(unheard.last().unwrap()["result"], json!({"stopReason": "end_turn"}));
}

#[test]
fn another_process_goes_on_with_a_session() {
    for (flags, method, before, after) in [
        (vec!["--load"], "session/load", "remember 7I heard: remember 7", ""),
        (
            vec!["--load", "--replay", "after"],
            "session/load",
            "",
            "This is the context of the session.remember 7I heard: remember 7",
        ),
        (vec!["--load", "--replay", "none"], "session/load", "", ""),
        (vec!["--resume"], "session/resume", "", ""),
    ] {
        let directory = TempDir::new().unwrap();
        let (mut first, session) = Client::with_session(directory.path(), &flags);
        first.told(&session, "remember 7");
        drop(first);

        let mut second = Client::start(directory.path(), &flags);
        second.call("initialize", json!({"protocolVersion": 1}));
        let params = json!({"sessionId": session, "cwd": directory.path(), "mcpServers": []});
        let loaded = second.call(method, params);
        let told = second.told(&session, "history");

        let all = |messages: &[Value]| -> String {
            let updates =
                messages.iter().map(|message| &message["params"]["update"]["content"]["text"]);
            updates.filter_map(Value::as_str).collect()
        };
        assert_eq!(loaded.last().unwrap()["result"], json!({}), "{flags:?}");
        assert_eq!(all(&loaded), before, "{flags:?}");
        assert_eq!(
            all(&told),
            format!("{after}user: remember 7\nagent: I heard: remember 7"),
            "{flags:?}"
        );
    }
}

#[test]
fn a_lost_session_and_a_missing_log_in_are_told_by_their_codes() {
    let directory = TempDir::new().unwrap();
    let load = json!({"sessionId": "gone", "cwd": "/", "mcpServers": []});
    for code in [-32002, -32602, -32603] {
        let mut client =
            Client::start(directory.path(), &["--load", "--lost-code", &code.to_string()]);
        assert_eq!(client.call("session/load", load.clone())[0]["error"]["code"], code);
    }
    let mut client = Client::start(directory.path(), &["--auth-required", "--load"]);
    assert_eq!(client.call("session/new", json!({"cwd": "/"}))[0]["error"]["code"], -32000);
    assert_eq!(client.call("session/load", load.clone())[0]["error"]["code"], -32000);
    let mut client = Client::start(directory.path(), &[]);
    assert_eq!(client.call("session/load", load)[0]["error"]["code"], -32601);
}

#[test]
fn initialize_tells_the_version_and_the_abilities() {
    let directory = TempDir::new().unwrap();
    let flags = ["--protocol-version", "2", "--load", "--resume", "--list", "--close"];
    let mut client = Client::start(directory.path(), &flags);

    let answer = client.call("initialize", json!({"protocolVersion": 1})).remove(0);

    assert_eq!(answer["result"]["protocolVersion"], 2);
    let abilities = &answer["result"]["agentCapabilities"];
    assert_eq!(abilities["loadSession"], true);
    assert_eq!(abilities["sessionCapabilities"], json!({"resume": {}, "list": {}, "close": {}}));
}

#[test]
fn it_ends_at_every_point_of_the_protocol() {
    for point in ["start", "initialize", "new", "prompt", "update", "answer", "cancel"] {
        for (flag, value) in [("--exit-at", "7"), ("--crash-at", "9")] {
            let directory = TempDir::new().unwrap();
            let at = format!("{point}:{value}");
            let mut client = Client::start(directory.path(), &[flag, &at]);

            // It may be gone at each of these lines.
            let stdin = client.stdin.as_mut().unwrap();
            let mut send = |text: String| drop(writeln!(stdin, "{text}"));
            send(json!({"id": 1, "method": "initialize", "params": {}}).to_string());
            send(json!({"id": 2, "method": "session/new", "params": {"cwd": "/"}}).to_string());
            while let Ok(line) = client.lines.recv_timeout(DEADLINE) {
                let message: Value = serde_json::from_slice(&line).unwrap();
                if let Some(session) = message["result"]["sessionId"].as_str() {
                    client.prompt(session, "say a");
                    if point == "cancel" {
                        let params = json!({"sessionId": session});
                        client.send(&json!({"method": "session/cancel", "params": params}));
                    }
                }
            }

            client.stdin = None;
            let status = client.exited();
            match flag {
                "--exit-at" => assert_eq!(status.code(), Some(7), "{point}"),
                _ => assert_eq!(status.signal(), Some(9), "{point}"),
            }
        }
    }
}

#[test]
fn garbage_does_not_keep_it_from_answering() {
    let directory = TempDir::new().unwrap();
    let kinds = [
        "text",
        "binary",
        "json",
        "unknown-id",
        "unknown-method",
        "unknown-request",
        "unknown-update",
        "bad-update",
        "wrong-session",
        "twice",
    ];
    let flags: Vec<&str> = kinds.iter().flat_map(|kind| ["--garbage", kind]).collect();
    let (mut client, session) = Client::with_session(directory.path(), &flags);

    let first = client.prompt(&session, "garbage text 3\nsay a\nlate 2");
    let messages = client.until(|message| message["id"] == first);
    let twice = client.until(|message| message["params"]["update"]["content"]["text"] == "late 2 ");

    let garbage = messages.iter().filter(|message| message["garbage"].is_number()).count();
    assert_eq!(garbage, 2 + 3, "{messages:?}");
    assert_eq!(said(&messages), "of another sessiona");
    assert_eq!(twice[0], *messages.last().unwrap());
    assert_eq!(said(&twice), "late 1 late 2 ");
}

#[test]
fn long_lines_and_floods_are_as_long_as_they_are_told() {
    let directory = TempDir::new().unwrap();
    let (mut client, session) = Client::with_session(directory.path(), &["--long-line", "1"]);

    let line = client.told(&session, "long-line 2");
    let begun = Instant::now();
    let flood = client.told(&session, "flood 500 5000");
    let took = begun.elapsed();
    let fast = client.told(&session, "flood 20000 0");

    assert_eq!(said(&line).len(), 2 * 1024 * 1024);
    assert!(took >= Duration::from_millis(90), "{took:?}");
    let numbers = |count: usize| (1..=count).map(|number| format!("{number} ")).collect::<String>();
    assert_eq!(said(&flood), numbers(500));
    assert_eq!(said(&fast), numbers(20_000));
}

#[test]
fn detached_processes_outlive_it_and_can_be_found() {
    let directory = TempDir::new().unwrap();
    let tag = format!("tag-of-{}", std::process::id());
    let flags = ["--tag", &tag, "--detach", "1", "--detach-holding", "1", "--journal", "journal"];
    let (mut client, session) = Client::with_session(directory.path(), &flags);
    let told = client.told(&session, "fork-detached 2");
    drop(client);

    let journal = fs::read_to_string(directory.path().join("journal")).unwrap();
    let lines: Vec<Value> =
        journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let pids: Vec<i32> = lines
        .iter()
        .filter_map(|line| line["detached"].as_array())
        .flatten()
        .map(|pid| i32::try_from(pid.as_i64().unwrap()).unwrap())
        .collect();

    assert_eq!(pids.len(), 4, "{journal}");
    assert!(said(&told).starts_with("detached ["), "{told:?}");
    assert!(journal.contains("\"received\""), "{journal}");
    for pid in pids {
        let process = Pid::from_raw(pid).unwrap();
        test_kill_process(process).expect("it lives");
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        let session = session_of(&pid.to_string());
        kill_process(process, Signal::KILL).unwrap();
        assert!(command.contains(&tag), "{command}");
        assert_ne!(session, session_of("self"));
    }
}

/// The session of a process, or 0 if its leader is outside the process namespace, as it is for what a container runs.
fn session_of(process: &str) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, behind_the_name) = stat.rsplit_once(") ").unwrap();
    behind_the_name.split(' ').nth(3).unwrap().parse().unwrap()
}

#[test]
fn it_can_ignore_sigterm_and_the_end_of_its_input() {
    let directory = TempDir::new().unwrap();
    let flags = ["--ignore-sigterm", "--ignore-eof", "--journal", "journal"];
    let (mut client, _session) = Client::with_session(directory.path(), &flags);
    let (mut tame, _session) = Client::with_session(directory.path(), &[]);
    let pid = |client: &Client| Pid::from_raw(i32::try_from(client.child.id()).unwrap()).unwrap();

    kill_process(pid(&client), Signal::TERM).unwrap();
    client.stdin = None;
    let deadline = Instant::now() + DEADLINE;
    let noted = |what: &str| {
        let journal = fs::read_to_string(directory.path().join("journal")).unwrap();
        journal.contains(what)
    };
    while !(noted("SIGTERM") && noted("eof")) {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    let running = client.child.try_wait().unwrap();
    kill_process(pid(&tame), Signal::TERM).unwrap();

    assert_eq!(running, None);
    assert_eq!(tame.exited().code(), Some(143));
}
