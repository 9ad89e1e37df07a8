//! `skein ask` against a strict provider on a real socket.

use std::{fs, os::unix::fs::symlink};

use serde_json::{Value, json};
use skein_testkit::responses::{Answer, Refusal};

use crate::{
    common::Ran,
    desk::{Desk, WorkTree},
};

/// Paths and fates of the files of the last turn.
fn fates(desk: &Desk) -> Vec<(String, String)> {
    let context = desk.run(&["turn", "context", "--json"]).json();
    let files = context["files"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    files.map(|file| (text(&file["path"]), text(&file["fate"]))).collect()
}

fn fate(path: &str, fate: &str) -> (String, String) {
    (path.to_owned(), fate.to_owned())
}

/// What the provider says by itself: which turn this is for it, and the instruction.
#[track_caller]
fn assert_said(ran: &Ran, turn: usize, instruction: &str) {
    let (says, asked) =
        (ran.stdout.starts_with(&format!("turn {turn}")), format!(": {instruction}\n"));
    assert!(says && ran.stdout.ends_with(&asked), "stdout: {}\nstderr: {}", ran.stdout, ran.stderr);
}

#[track_caller]
fn assert_footer(ran: &Ran) {
    let footer = ran.stderr.lines().last().unwrap_or_default();
    assert!(footer.starts_with("✓ ") && footer.contains(" · sent "), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_goes_on_in_its_directory_whoever_remembers_it() {
    for desk in [Desk::new().await, Desk::without_memory().await] {
        let first = desk.ask(&["one"]);
        let second = desk.ask(&["-c", "two"]);
        let third = desk.ask(&["--continue", "three", "words", "here"]);

        assert_said(&first, 1, "one");
        assert_said(&second, 2, "two");
        assert_said(&third, 3, "three words here");
        assert_footer(&third);
        assert_eq!(desk.sent().len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_directory_has_a_last_session_of_its_own() {
    let mut desk = Desk::new().await;
    desk.ask(&["one"]);
    let id = desk.run(&["session", "list", "--json"]).json()["sessions"][0]["id"].clone();

    let first = std::mem::replace(&mut desk.tree, WorkTree::new());
    let elsewhere = desk.run(&["ask", "-c", "two"]);
    let named = desk.ask(&["-s", id.as_str().unwrap(), "two"]);
    desk.tree.write("deep/down/file", "");
    let from_below =
        Ran::of(desk.command(&["ask", "-c", "three"]).current_dir(desk.tree.file("deep/down")));

    assert_eq!(elsewhere.code, Some(3), "{}", elsewhere.stderr);
    assert_said(&named, 2, "two");
    assert_said(&from_below, 3, "three");
    assert_eq!(fs::read_dir(first.path()).unwrap().count(), 1, "only .git is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn modified_files_go_along_once_and_again_when_they_change() {
    let desk = Desk::new().await;
    for (name, content) in [("src/a.rs", "old a"), ("src/b.rs", "old b"), ("c.rs", "old c")] {
        desk.tree.write(name, content);
    }
    desk.tree.commit();
    desk.tree.write("src/a.rs", "the new a");
    desk.tree.write("c.rs", "the new c");
    desk.tree.git(&["add", "c.rs"]);
    desk.tree.write("untracked.rs", "nobody asked for this");

    desk.ask(&["one"]);
    let first = fates(&desk);
    desk.ask(&["-c", "two"]);
    let second = fates(&desk);
    desk.tree.write("src/a.rs", "the newest a");
    desk.ask(&["-c", "three"]);
    let third = fates(&desk);
    desk.ask(&["-c", "--no-git", "four"]);

    assert_eq!(first, [fate("c.rs", "sent"), fate("src/a.rs", "sent")]);
    assert_eq!(second, [fate("c.rs", "unchanged"), fate("src/a.rs", "unchanged")]);
    assert_eq!(third, [fate("c.rs", "unchanged"), fate("src/a.rs", "sent")]);
    assert_eq!(fates(&desk), []);
    let sent: Vec<_> = desk.sent().iter().map(Value::to_string).collect();
    let holds = |text: &str| sent.iter().map(|body| body.contains(text)).collect::<Vec<_>>();
    assert_eq!(holds("the new a"), [true, false, false, false]);
    assert_eq!(holds("the newest a"), [false, false, true, false]);
    assert_eq!(holds("nobody asked"), [false; 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_go_along_whole_or_are_left_out_with_a_reason() {
    let desk = Desk::new().await;
    let names = ["binary", "large", "deleted", "exact"];
    names.iter().for_each(|name| desk.tree.write(name, "old"));
    symlink("/etc/hostname", desk.tree.file("link")).unwrap();
    desk.tree.commit();
    desk.tree.write("binary", b"\xff\xfe\x00");
    desk.tree.write("large", "x".repeat(102_401));
    desk.tree.write("exact", "x".repeat(102_400));
    fs::remove_file(desk.tree.file("deleted")).unwrap();
    fs::remove_file(desk.tree.file("link")).unwrap();
    symlink("/etc/passwd", desk.tree.file("link")).unwrap();
    desk.tree.write("named", "by a person");

    let ran = desk.ask(&["look", "-f", "named"]);

    let expected = [fate("named", "sent"), fate("exact", "sent"), fate("large", "too_large")];
    let mut found = fates(&desk);
    assert_eq!(found.remove(0), expected[0], "named ones come first");
    assert_eq!(found, expected[1..]);
    assert!(
        ran.stderr.contains("warning: binary is left out: it is not UTF-8 text\n"),
        "{}",
        ran.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_file_must_be_a_file_inside_the_work_tree() {
    let desk = Desk::new().await;
    symlink("/etc/passwd", desk.tree.file("link")).unwrap();
    desk.tree.write("directory/file", "");

    for name in ["/etc/passwd", "../x", "link", "directory", "missing"] {
        let ran = desk.run(&["ask", "look", "-f", name]);

        assert_eq!(ran.code, Some(2), "{name}: {}", ran.stderr);
    }
    assert_eq!(desk.sent(), Vec::<Value>::new());
    assert_eq!(desk.run(&["session", "list", "--json"]).json()["total"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_says_what_would_be_sent_and_leaves_no_trace() {
    let desk = Desk::new().await;
    desk.tree.write("a.rs", "content");

    let first = desk.ask(&["--dry-run", "one", "-f", "a.rs"]);
    let sessions = desk.run(&["session", "list", "--json"]).json()["total"].clone();
    desk.ask(&["one", "-f", "a.rs"]);
    let second = desk.ask(&["--dry-run", "-c", "two", "-f", "a.rs", "--json"]).json();

    assert!(first.stdout.contains("chain      start: "), "{}", first.stdout);
    assert!(first.stdout.contains("file\tsent\t7 B\ta.rs\t"), "{}", first.stdout);
    assert_eq!(sessions, 0);
    assert_eq!(second["turnId"], Value::Null);
    assert_eq!(second["chain"]["decision"], "continue");
    assert_eq!(second["files"][0]["fate"], "unchanged");
    assert_eq!(desk.sent().len(), 1);
    assert_eq!(desk.run(&["turn", "list", "--json"]).json()["turns"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_json_the_body_of_the_rest_answer_is_printed() {
    let desk = Desk::new().await;
    let server = desk.serve().await;

    let printed = desk.ask(&["hello", "--json"]);
    let body = printed.json();
    let request = json!({"client": "cli", "instruction": "hello"});
    let (_, rest) = server.post("/api/ai/agent/execute", request).await;

    assert_eq!(printed.stdout.lines().count(), 1);
    assert!(body["text"].as_str().unwrap().ends_with(": hello"), "{body}");
    let plain = |mut body: Value| {
        for field in ["sessionId", "turnId", "conversationId"] {
            assert!(body[field].is_string(), "{field}");
            body[field] = Value::Null;
        }
        body
    };
    assert_eq!(plain(body), plain(rest));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_on_stdin_belongs_to_the_instruction() {
    let desk = Desk::new().await;

    let both = desk.run_with_input(&["ask", "explain", "this"], "fn main() {}\n".as_bytes());
    let alone = desk.run_with_input(&["ask"], b"what is this?");
    let nothing = desk.run_with_input(&["ask"], b"\n");
    let garbage = desk.run_with_input(&["ask", "explain"], b"\xff\xfe");
    let huge = desk.run_with_input(&["ask", "explain"], "x".repeat(1_048_577).as_bytes());

    assert_said(&both, 1, "explain this\n\nfn main() {}\n");
    assert_said(&alone, 1, "what is this?");
    let codes = [nothing.code, garbage.code, huge.code];
    assert_eq!(codes, [Some(2), Some(2), Some(2)], "{}", huge.stderr);
    assert!(huge.stderr.contains("payload_too_large"), "{}", huge.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_turn_exits_with_1_and_says_why() {
    let desk = Desk::new().await;
    desk.provider.script(Refusal::status(500));

    let ran = desk.run(&["ask", "hello"]);
    let shown = desk.run(&["turn", "show"]);

    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    let error = ran.stderr.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(error.ends_with("(provider_error)"), "{error}");
    assert_eq!(shown.code, Some(1));
    assert_said(&desk.ask(&["-c", "again"]), 1, "again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detached_turn_is_waited_for_later_and_keeps_its_session_busy() {
    let desk = Desk::new().await;
    let _server = desk.serve().await;
    desk.provider.script(Answer::text("at last").hold_before(3, "middle"));

    let detached = desk.ask(&["slowly", "--detach"]).stdout;
    let ids: Vec<_> = detached.split_whitespace().collect();
    desk.provider.gate("middle").reached().await;
    let busy = desk.run(&["ask", "-c", "more"]);
    let pending = desk.run(&["turn", "show", "--json"]).json();
    let mut command = desk.command(&["turn", "wait", ids[0], ids[1]]);
    let waiting = tokio::task::spawn_blocking(move || Ran::of(&mut command));
    desk.provider.gate("middle").open();
    let waited = waiting.await.unwrap();
    let again = desk.run(&["turn", "wait"]);

    assert_eq!(ids.len(), 2);
    assert_eq!((&pending["id"], &pending["status"]["key"]), (&ids[1].into(), &"pending".into()));
    assert_eq!(busy.code, Some(5), "{}", busy.stderr);
    assert!(busy.stderr.contains("hint: "), "{}", busy.stderr);
    assert_eq!((waited.code, waited.stdout.as_str()), (Some(0), "at last\n"), "{}", waited.stderr);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), "at last\n"), "{}", again.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_there_is_nothing_to_detach_from() {
    let desk = Desk::new().await;

    let ran = desk.run(&["ask", "slowly", "--detach"]);

    assert_eq!(ran.code, Some(6), "{}", ran.stderr);
    assert_eq!(desk.sent(), Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_run_again_with_the_files_as_they_are_now() {
    let desk = Desk::new().await;
    desk.tree.write("a.rs", "old");
    desk.tree.commit();
    desk.ask(&["look at it"]);
    desk.tree.write("a.rs", "changed");

    let rerun = desk.run(&["turn", "rerun"]);
    let files = fates(&desk);
    let changed =
        desk.run(&["turn", "rerun", "last", "1", "--instruction", "look again", "--no-git"]);
    let turns = desk.run(&["turn", "list", "--json"]).json();

    assert_said(&rerun, 2, "look at it");
    assert_footer(&rerun);
    assert_eq!(files, [fate("a.rs", "sent")]);
    assert_said(&changed, 3, "look again");
    let asked = |index: usize| turns["turns"][index]["instructionSummary"].clone();
    assert_eq!([asked(0), asked(1), asked(2)], ["look at it", "look at it", "look again"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_run_again_is_printed_as_json_at_its_end() {
    let desk = Desk::new().await;
    desk.ask(&["look at it"]);

    let alone = desk.run(&["turn", "rerun", "--json"]);
    let detached = desk.run(&["turn", "rerun", "--json", "--detach"]);
    let server = desk.serve().await;
    let served = desk.run(&["turn", "rerun", "--json"]);
    desk.provider.script(Refusal::status(500));
    let failed = desk.run(&["turn", "rerun", "--json"]);
    let stored = desk.run(&["turn", "show", "last", "2", "--json"]).json();
    drop(server);

    assert_eq!(alone.json(), stored);
    assert_eq!(stored["status"]["key"], "completed");
    assert_eq!((detached.code, detached.stdout.as_str()), (Some(6), ""), "{}", detached.stderr);
    let served = served.json();
    assert_eq!(
        (&served["sequenceNumber"], &served["status"]["key"]),
        (&json!(3), &json!("completed"))
    );
    assert_eq!(failed.code, Some(1), "{}", failed.stderr);
    let failed: Value = serde_json::from_str(&failed.stdout).unwrap();
    assert_eq!(failed["errorCode"], "provider_error");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_chosen_with_its_provider() {
    let desk = Desk::new().await;

    desk.ask(&["-m", "model/m-2", "-a", "model", "one"]);
    desk.ask(&["-m", "model/m-3", "--lang", "rust", "--scope", "src/**", "two"]);
    desk.ask(&["-m", "m-4", "three"]);
    let turn = desk.run(&["turn", "show", "--json"]).json();
    let unknown = desk.run(&["ask", "-m", "nobody/m", "four"]);

    let models: Vec<_> = desk.sent().iter().map(|body| body["model"].clone()).collect();
    assert_eq!(models, ["model/m-2", "m-3", "m-4"]);
    assert_eq!(turn["repo"].as_str(), desk.tree.path().file_name().unwrap().to_str());
    let real = desk.tree.path().canonicalize().unwrap();
    assert!(turn["workspaceId"].as_str().unwrap().ends_with(&format!(":{}", real.display())));
    assert_eq!(unknown.code, Some(2), "{}", unknown.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn thoughts_are_told_on_stderr_and_only_when_asked_for() {
    let desk = Desk::new().await;
    desk.provider.script(Answer::reasoning("I wonder").and_text("so it is"));
    desk.provider.script(Answer::reasoning("I wonder").and_text("so it is"));

    let quiet = desk.ask(&["one"]);
    let verbose = desk.ask(&["one", "--verbose"]);

    assert_eq!((quiet.stdout.as_str(), verbose.stdout.as_str()), ("so it is\n", "so it is\n"));
    assert!(!quiet.stderr.contains("I wonder"));
    assert!(verbose.stderr.contains("I wonder"), "{}", verbose.stderr);
}
