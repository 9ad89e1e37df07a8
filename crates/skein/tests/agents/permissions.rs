//! What an agent may do is asked, answered, and kept on record.

use std::fs;

use serde_json::{Value, json};

use crate::{
    desk::{Desk, Setup},
    harness::eventually,
};

/// The one question of a session, once it is asked.
async fn asked(desk: &Desk, session: &str) -> Value {
    let path = format!("/api/sessions/{session}/permissions");
    eventually("a permission is asked for", async || {
        let list = desk.api.get(&path).await.expect(200).json();
        let pending = list.as_array().unwrap().iter().find(|one| one["state"] == "pending");
        pending.cloned()
    })
    .await
}

fn path_of(session: &str, asked: &Value) -> String {
    format!("/api/sessions/{session}/permissions/{}", asked["requestId"].as_str().unwrap())
}

async fn state_of(desk: &Desk, session: &str, asked: &Value) -> String {
    let path = format!("/api/sessions/{session}/permissions");
    let list = desk.api.get(&path).await.expect(200).json();
    let found = list.as_array().unwrap().iter().find(|one| one["requestId"] == asked["requestId"]);
    found.unwrap()["state"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_question_is_an_event_and_is_answered_over_http() {
    for ids in ["numbers", "uuids"] {
        let desk = Desk::start(&["--ids", ids]).await;
        let session = desk.active().await;
        let turn = desk.api.prompt(&session, "ask p1 edit a.txt\nsay done").await;

        let event = desk.until_event(&session, "permission.requested").await;
        let asked = asked(&desk, &session).await;
        let before = desk.file("a.txt").exists();
        let path = path_of(&session, &asked);
        desk.api.post(&path, json!({"optionId": "yes"})).await.expect(200);
        let second = desk.api.post(&path, json!({"optionId": "no"})).await;
        let turn = desk.api.finished(&session, &turn).await;

        assert!(!before);
        assert_eq!(turn["status"]["key"], "completed", "{turn}");
        assert_eq!(fs::read_to_string(desk.file("a.txt")).unwrap(), "written by p1\n");
        assert_eq!(event["requestId"], asked["requestId"]);
        assert_eq!(event["toolCall"], asked["toolCall"]);
        assert_eq!(asked["turnId"], turn["id"]);
        assert!(asked["requestedAt"].is_string(), "{asked}");
        assert_eq!(
            asked["options"],
            json!([
                {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
                {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
                {"optionId": "no", "name": "Reject", "kind": "reject_once"},
            ])
        );
        assert_eq!(second.refusal(), (409, "permission_settled".to_owned()));
        assert_eq!(state_of(&desk, &session, &asked).await, "answered");
        let [resolved] = &desk.events(&session, "permission.resolved").await[..] else {
            panic!("one answer")
        };
        assert_eq!(resolved["requestId"], asked["requestId"]);
        assert_eq!(resolved["optionId"], "yes");
        let [tool] = &desk.contents(&session, "tool").await[..] else { panic!("one tool") };
        assert_eq!(
            (&tool["tool"], &tool["args"]),
            (&json!("edit a.txt"), &json!({"path": "a.txt"}))
        );
    }
}

#[tokio::test]
async fn who_answered_is_on_record() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;
    desk.api.prompt(&session, "ask p1 edit a.txt").await;
    let asked = asked(&desk, &session).await;

    desk.api.post(&path_of(&session, &asked), json!({"optionId": "no"})).await.expect(200);

    let entry = eventually("the answer is on record", async || {
        let log = desk.api.get("/api/audit?limit=200").await.expect(200).json();
        let entries = log["entries"].as_array().unwrap().clone();
        entries
            .into_iter()
            .find(|entry| entry["action"].as_str().unwrap().starts_with("permission."))
    })
    .await;
    let me = desk.api.get("/api/whoami").await.expect(200).json();
    assert_eq!(entry["actorId"], me["user"]["id"], "{entry} {me}");
    let told = entry.to_string();
    assert!(told.contains(&session), "{told}");
    assert!(told.contains(asked["requestId"].as_str().unwrap()), "{told}");
    assert_eq!(entry["detail"]["optionId"], "no", "{told}");
}

#[tokio::test]
async fn a_rejection_is_respected_however_the_agent_reacts() {
    for reaction in ["go-on", "silent", "cancelled"] {
        let mut desk = Desk::start(&["--on-reject", reaction]).await;
        let session = desk.active().await;
        let turn = desk.api.prompt(&session, "ask p1 edit a.txt\nsay after").await;
        let asked = asked(&desk, &session).await;

        desk.api.post(&path_of(&session, &asked), json!({"optionId": "no"})).await.expect(200);
        let turn = desk.api.finished(&session, &turn).await;
        let next = desk.said(&session, "say next").await;

        assert!(!desk.file("a.txt").exists());
        assert_eq!(next, "next", "{reaction}");
        let tools = desk.contents(&session, "tool").await;
        assert_eq!(tools.len(), 1, "{reaction}: the call is closed: {tools:?}");
        let said = desk.said_in(&session, turn["id"].as_str().unwrap()).await;
        assert_eq!(said.contains("after"), reaction == "go-on", "{said}");
        desk.assert_sound();
    }
}

#[tokio::test]
async fn a_question_can_be_called_off() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let turn = desk.api.prompt(&session, "ask p1 edit a.txt").await;
    let asked = asked(&desk, &session).await;
    let path = path_of(&session, &asked);

    desk.api.post(&path, json!({"cancel": true})).await.expect(200);
    let again = desk.api.post(&path, json!({"cancel": true})).await;
    desk.api.finished(&session, &turn).await;

    assert!(!desk.file("a.txt").exists());
    assert_eq!(again.refusal(), (409, "permission_settled".to_owned()));
    assert_eq!(state_of(&desk, &session, &asked).await, "cancelled");
    let said = desk.said_in(&session, &turn).await;
    assert!(said.contains("\"cancelled\""), "the agent was told so: {said}");
}

#[tokio::test]
async fn answers_that_make_no_sense_are_refused() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let turn = desk.api.prompt(&session, "ask p1 edit a.txt").await;
    let asked = asked(&desk, &session).await;
    let path = path_of(&session, &asked);

    for body in
        [json!({}), json!({"optionId": "maybe"}), json!({"optionId": "yes", "cancel": true})]
    {
        let refused = desk.api.post(&path, body.clone()).await;
        assert!([400, 422].contains(&refused.refusal().0), "{body}: {refused:?}");
    }
    let unknown = format!("/api/sessions/{session}/permissions/not-a-question");
    let not_found = desk.api.post(&unknown, json!({"optionId": "yes"})).await;

    assert_eq!(not_found.refusal(), (404, "not_found".to_owned()));
    assert_eq!(state_of(&desk, &session, &asked).await, "pending");
    desk.api.post(&path, json!({"optionId": "yes"})).await.expect(200);
    desk.api.finished(&session, &turn).await;
    assert!(desk.file("a.txt").exists());
}

#[tokio::test]
async fn a_cancelled_turn_calls_off_its_question() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let turn = desk.api.prompt(&session, "ask p1 edit a.txt").await;
    let asked = asked(&desk, &session).await;

    let path = format!("/api/sessions/{session}/turns/{turn}/cancel");
    desk.api.post(&path, json!({})).await.expect(200);
    desk.api.finished(&session, &turn).await;

    assert_eq!(state_of(&desk, &session, &asked).await, "cancelled");
    let log = desk.api.log(&session).await;
    let last_two = &log.types()[log.types().len() - 2..];
    assert_eq!(last_two, ["permission.resolved", "turn.failed"], "questions end with their turn");
    let late = desk.api.post(&path_of(&session, &asked), json!({"optionId": "yes"})).await;
    assert_eq!(late.refusal(), (409, "permission_settled".to_owned()));
    assert_eq!(desk.said(&session, "say next").await, "next");
    assert!(!desk.file("a.txt").exists());
}

#[tokio::test]
async fn a_policy_answers_what_it_allows_and_leaves_the_rest_to_people() {
    for (policy, kind, is_asked) in [
        ("ask", "read", true),
        ("allow-reads", "read", false),
        ("allow-reads", "edit", true),
        ("allow-all", "edit", false),
    ] {
        let desk = Setup::default().agent(&format!("permissions = \"{policy}\"")).start().await;
        fs::write(desk.file("a.txt"), "before").unwrap();
        let session = desk.active().await;
        let turn = desk.api.prompt(&session, &format!("ask p1 {kind} a.txt")).await;
        if is_asked {
            let asked = asked(&desk, &session).await;
            desk.api.post(&path_of(&session, &asked), json!({"optionId": "yes"})).await.expect(200);
        }

        let turn = desk.api.finished(&session, &turn).await;

        assert_eq!(turn["status"]["key"], "completed", "{policy} {kind}: {turn}");
        let [resolved] = &desk.events(&session, "permission.resolved").await[..] else {
            panic!("{policy} {kind}: one answer")
        };
        assert_eq!(resolved["optionId"], "yes", "the narrowest that allows");
        assert_eq!(resolved["by"] == "policy", !is_asked, "{policy} {kind}: {resolved}");
        let is_written = fs::read_to_string(desk.file("a.txt")).unwrap() != "before";
        assert_eq!(is_written, kind == "edit");
    }
}

#[tokio::test]
async fn a_question_that_nobody_answers_times_out() {
    let desk = Setup::default().agent("permission_timeout_minutes = 0.02").start().await;
    let session = desk.active().await;
    let turn = desk.api.prompt(&session, "ask p1 edit a.txt").await;
    let asked = asked(&desk, &session).await;

    desk.api.finished(&session, &turn).await;

    assert_eq!(state_of(&desk, &session, &asked).await, "timed_out");
    let late = desk.api.post(&path_of(&session, &asked), json!({"optionId": "yes"})).await;
    assert_eq!(late.refusal(), (409, "permission_settled".to_owned()));
    let [resolved] = &desk.events(&session, "permission.resolved").await[..] else { panic!("one") };
    assert_eq!((&resolved["optionId"], &resolved["by"]), (&json!(null), &json!("timeout")));
    assert!(!desk.file("a.txt").exists());
}

#[tokio::test]
async fn a_question_does_not_survive_a_restart_but_its_session_does() {
    let mut desk = Desk::start(&["--load"]).await;
    let session = desk.active().await;
    let turn = desk.api.prompt(&session, "ask p1 edit a.txt").await;
    let asked = asked(&desk, &session).await;

    desk.restart().await;

    assert_eq!(state_of(&desk, &session, &asked).await, "cancelled");
    let late = desk.api.post(&path_of(&session, &asked), json!({"optionId": "yes"})).await;
    assert_eq!(late.refusal(), (409, "permission_settled".to_owned()));
    assert_eq!(desk.api.turn(&session, &turn).await["errorCode"], "interrupted");
    let [resolved] = &desk.events(&session, "permission.resolved").await[..] else { panic!("one") };
    assert_eq!(resolved["optionId"], json!(null));
    assert_eq!(desk.said(&session, "say next").await, "next");
    assert!(!desk.file("a.txt").exists());
}

#[tokio::test]
async fn the_command_line_answers_too() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let turn = desk.api.prompt(&session, "ask p1 edit a.txt").await;
    let asked = asked(&desk, &session).await;

    let request = asked["requestId"].as_str().unwrap();
    let home = desk.server.home().clone();
    let arguments = ["session", "permit", &session, request, "yes", "--json"].map(str::to_owned);
    let ran = tokio::task::spawn_blocking(move || {
        home.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    })
    .await
    .unwrap();

    assert_eq!(ran.code, Some(0), "{ran:?}");
    desk.api.finished(&session, &turn).await;
    assert!(desk.file("a.txt").exists());
}
