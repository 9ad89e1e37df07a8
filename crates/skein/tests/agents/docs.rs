//! The script in the documentation does what it says.

use std::{
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};

use serde_json::Value;
use tokio::process::Command;

use crate::desk::Desk;

#[tokio::test]
async fn the_script_of_the_documentation_can_be_pasted() {
    let desk = Desk::start(&[]).await;

    let ran = paste(&desk, "scripted", &["-euo", "pipefail"]).await;

    let (printed, errors) = (text(&ran.stdout), text(&ran.stderr));
    assert!(ran.status.success(), "{printed}\n{errors}");
    let lines: Vec<&str> = printed.lines().collect();
    let [listed, shown, unknown, prompted, messages, since, cancelled, refused] = lines[..] else {
        panic!("{printed}");
    };
    let json = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    assert_eq!(json(listed)["total"], 1);
    assert_eq!(json(shown)["status"], "active");
    assert_eq!(unknown, "404");
    assert_eq!(json(prompted)["status"], "pending");
    assert_eq!(json(messages), json(since));
    let roles: Vec<_> = json(messages).as_array().unwrap().iter().map(said).collect();
    assert_eq!(
        roles,
        [("user".to_owned(), "say hello".to_owned()), ("agent".to_owned(), "hello".to_owned())]
    );
    assert_eq!(json(cancelled)["status"], "cancelled");
    assert_eq!(refused, "409");
}

/// Nobody waits for a turn that there will never be.
#[tokio::test]
async fn the_script_of_the_documentation_ends_without_a_session() {
    let desk = Desk::start(&[]).await;

    let ran = paste(&desk, "nobody", &[]);
    let ran = tokio::time::timeout(Duration::from_secs(50), ran).await.unwrap();

    let printed = text(&ran.stdout);
    let listed: Value = serde_json::from_str(printed.lines().next().unwrap()).unwrap();
    assert_eq!(listed["total"], 0, "{printed}");
}

/// Runs the script as a shell with these flags does.
async fn paste(desk: &Desk, agent: &str, flags: &[&str]) -> Output {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agents.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, script) = page.split_once("```sh\n").unwrap();
    let (script, _) = script.split_once("```").unwrap();
    let mut command = Command::new("bash");
    command.args(flags).args(["-c", script]).stdin(Stdio::null()).kill_on_drop(true);
    command.env("SKEIN", desk.server.url()).env("TOKEN", desk.server.token());
    command.env("WORK_TREE", desk.work_tree()).env("AGENT", agent);
    command.output().await.unwrap()
}

fn said(message: &Value) -> (String, String) {
    let part = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (part(&message["role"]), part(&message["content"]["text"]))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
