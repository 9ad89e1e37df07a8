//! The script in the documentation does what it says.

use std::{path::Path, process::Stdio};

use serde_json::Value;
use tokio::process::Command;

use crate::desk::Desk;

#[tokio::test]
async fn the_script_of_the_documentation_can_be_pasted() {
    let desk = Desk::start(&[]).await;
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agents.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, script) = page.split_once("```sh\n").unwrap();
    let (script, _) = script.split_once("```").unwrap();

    let ran = Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .env("SKEIN", desk.server.url())
        .env("TOKEN", desk.server.token())
        .env("WORK_TREE", desk.work_tree())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();

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

fn said(message: &Value) -> (String, String) {
    let part = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (part(&message["role"]), part(&message["content"]["text"]))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
