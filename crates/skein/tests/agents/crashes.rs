//! Agents that end by themselves, at every point of the protocol.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::{desk::Desk, harness::eventually};

/// What was promised for the details of a crash.
const SOON: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_crash_is_told_in_detail_and_ends_the_session() {
    for (line, told) in [("exit 3", "3"), ("crash 11", "11"), ("crash 9", "9")] {
        let mut desk = Desk::start(&["--detach-holding", "1"]).await;
        let session = desk.active().await;

        let since = Instant::now();
        let prompted = desk
            .api
            .prompt(&session, &format!("say I am\nstderr the disk is on fire\n{line}"))
            .await;
        let failed = desk.until_state(&session, "failed").await;
        let took = since.elapsed();
        let turn = desk.api.finished(&session, &prompted).await;
        let path = format!("/api/sessions/{session}");
        let prompt = desk.api.post(&format!("{path}/prompt"), json!({"text": "more"})).await;
        let resume = desk.api.post(&format!("{path}/resume"), json!({})).await;
        desk.nothing_runs().await;

        assert!(took < SOON, "{line}: told after {took:?}");
        assert_eq!(failed["status"], "error");
        assert_eq!(
            (&turn["status"]["key"], &turn["errorCode"]),
            (&json!("failed"), &json!("agent_exited")),
            "{turn}"
        );
        let [error] = &desk.contents(&session, "error").await[..] else {
            panic!("{line}: one message: {:?}", desk.messages(&session).await)
        };
        let message = error["message"].as_str().unwrap();
        assert_eq!(error["code"], "agent_exited");
        assert!(message.contains(told), "{line}: {message}");
        assert!(message.contains("the disk is on fire"), "{line}: {message}");
        let said = desk.contents(&session, "text").await;
        assert_eq!(
            said.last().unwrap(),
            &json!({"type": "text", "text": "I am", "partial": false, "interrupted": true})
        );
        assert_eq!(prompt.refusal(), (409, "session_not_active".to_owned()));
        assert_eq!(resume.refusal(), (409, "session_not_active".to_owned()));
        desk.assert_sound();
    }
}

#[tokio::test]
async fn a_crash_between_turns_ends_the_session_too() {
    let mut desk = Desk::start(&["--exit-at", "answer:5", "--stderr", "a last word"]).await;
    let session = desk.active().await;

    let turn = desk.run(&session, "say hello").await;
    let failed = desk.until_state(&session, "failed").await;

    assert_eq!(turn["status"]["key"], "completed", "{turn}");
    assert_eq!(failed["status"], "error");
    let errors = desk.contents(&session, "error").await;
    let [error] = &errors[..] else { panic!("one message: {errors:?}") };
    assert!(error["message"].as_str().unwrap().contains("a last word"), "{error}");
    assert_eq!(desk.said_in(&session, turn["id"].as_str().unwrap()).await, "hello");
    desk.assert_sound();
}

#[tokio::test]
async fn an_agent_may_end_at_any_point_before_its_first_answer() {
    for flag in ["--exit-at", "--crash-at"] {
        for point in ["start", "initialize", "new"] {
            let mut desk = Desk::start(&[flag, point, "--stderr", "I cannot"]).await;
            let session = desk.create().await;
            let path = format!("/api/sessions/{session}/prompt");
            let prompted = desk.api.post(&path, json!({"text": "say hello"})).await;

            desk.until_state(&session, "failed").await;

            // It may have ended before anybody could ask.
            if prompted.status == 202 {
                let turn = desk.api.finished(&session, &prompted.text("turnId")).await;
                assert_eq!(turn["errorCode"], "agent_exited", "{flag} {point}: {turn}");
            } else {
                assert_eq!(prompted.refusal(), (409, "session_not_active".to_owned()));
            }
            let errors = desk.contents(&session, "error").await;
            assert_eq!(errors.len(), 1, "{flag} {point}: {errors:?}");
            assert!(errors[0]["message"].as_str().unwrap().contains("I cannot"), "{errors:?}");
            desk.nothing_runs().await;
            desk.assert_sound();
        }
    }
}

#[tokio::test]
async fn an_agent_may_end_at_any_point_of_a_turn() {
    for flag in ["--exit-at", "--crash-at"] {
        for point in ["prompt", "update", "cancel"] {
            let mut desk = Desk::start(&[flag, point]).await;
            let session = desk.active().await;
            let prompted = desk.api.prompt(&session, "say hello\nstall").await;
            if point == "cancel" {
                desk.until_event(&session, "message.delta").await;
                let path = format!("/api/sessions/{session}/turns/{prompted}/cancel");
                desk.api.post(&path, json!({})).await.expect(200);
            }

            let turn = desk.api.finished(&session, &prompted).await;
            desk.until_state(&session, "failed").await;

            assert_eq!(turn["status"]["key"], "failed", "{flag} {point}: {turn}");
            let code = if point == "cancel" { "cancelled" } else { "agent_exited" };
            assert_eq!(turn["errorCode"], code, "{flag} {point}: {turn}");
            desk.nothing_runs().await;
            desk.assert_sound();
        }
    }
}

#[tokio::test]
async fn queued_turns_fail_with_their_agent() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let first = desk.api.prompt(&session, "wait-for go\nexit 3").await;
    let second = desk.api.enqueue(&session, "say second").await;

    std::fs::write(desk.file("go"), "").unwrap();
    let first = desk.api.finished(&session, &first).await;
    let second = desk.api.finished(&session, &second).await;

    assert_eq!(first["errorCode"], "agent_exited");
    assert_eq!(second["status"]["key"], "failed", "{second}");
    assert_eq!(desk.session(&session).await["state"], "failed");
}

#[tokio::test]
async fn an_agent_killed_from_outside_is_a_crash() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let prompted = desk.api.prompt(&session, "say hello\nstall").await;
    desk.until_event(&session, "message.delta").await;

    // The agent itself is the youngest: who supervises it was there before.
    let agent = desk.processes().into_iter().max_by_key(|found| found.pid).unwrap();
    agent.kill();
    let turn = desk.api.finished(&session, &prompted).await;

    assert_eq!(turn["errorCode"], "agent_exited", "{turn}");
    desk.until_state(&session, "failed").await;
    eventually("its place is free", async || {
        let reply = desk.api.post("/api/sessions", json!({"repoId": desk.repo})).await;
        (reply.status == 201).then_some(())
    })
    .await;
}
