//! Calling off: politely first, and in the end whatever the agent wants.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::{desk::Desk, harness::eventually};

/// From the wish to the last process of the tree.
const BOUND: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_cancelled_session_ends_its_turn_and_its_agent() {
    let mut desk = Desk::start(&["--detach", "1"]).await;
    let session = desk.active().await;
    let turn = desk.api.prompt(&session, "say a\nstall").await;
    let queued = desk.api.enqueue(&session, "say never").await;
    desk.until_event(&session, "message.delta").await;

    let path = format!("/api/sessions/{session}");
    let cancelled = desk.api.delete(&format!("{path}?reason=enough")).await.expect(200).json();
    let again = desk.api.delete(&path).await.expect(200).json();
    let (turn, queued) =
        (desk.api.finished(&session, &turn).await, desk.api.finished(&session, &queued).await);
    desk.nothing_runs().await;

    assert_eq!(
        (&cancelled["status"], &cancelled["state"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
    assert_eq!(again["state"], "cancelled");
    assert_eq!(
        (&turn["errorCode"], &queued["errorCode"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
    assert_eq!(
        desk.contents(&session, "status").await,
        [json!({"type": "status", "reason": "enough"})]
    );
    assert!(!desk.received("session/cancel").is_empty(), "{:?}", desk.journal());
    desk.assert_sound();
}

#[tokio::test]
async fn a_cancelled_turn_leaves_its_agent_for_the_next_one() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let turn = desk.api.prompt(&session, "say a\nstall").await;
    desk.until_event(&session, "message.delta").await;

    let path = format!("/api/sessions/{session}/turns/{turn}/cancel");
    desk.api.post(&path, json!({})).await.expect(200);
    let turn = desk.api.finished(&session, &turn).await;
    let next = desk.said(&session, "say b").await;

    assert_eq!(
        (&turn["status"]["key"], &turn["errorCode"]),
        (&json!("failed"), &json!("cancelled"))
    );
    assert_eq!(next, "b");
    assert_eq!(desk.received("session/cancel").len(), 1);
    assert_eq!(desk.received("initialize").len(), 1, "the same process");
}

#[tokio::test]
async fn an_agent_that_listens_to_nothing_is_ended_with_all_it_started() {
    let flags = [
        "--ignore-cancel",
        "--ignore-sigterm",
        "--ignore-eof",
        "--detach",
        "2",
        "--detach-holding",
        "1",
    ];
    let mut desk = Desk::start(&flags).await;
    let session = desk.active().await;
    let turn = desk.api.prompt(&session, "say a\nfork-detached 2\nstall").await;
    desk.until_event(&session, "message.delta").await;

    let since = Instant::now();
    let cancelled = desk.api.delete(&format!("/api/sessions/{session}")).await.expect(200).json();
    let turn = desk.api.finished(&session, &turn).await;
    desk.nothing_runs().await;
    let took = since.elapsed();

    assert!(took < BOUND, "{took:?}");
    assert_eq!(cancelled["state"], "cancelled");
    assert_eq!(turn["errorCode"], "cancelled");
    let signals = desk.journal().iter().filter(|line| line["signal"] == "SIGTERM").count();
    assert_eq!(signals, 1, "{:?}", desk.journal());
    assert!(!desk.received("session/cancel").is_empty(), "{:?}", desk.journal());
    desk.assert_sound();
}

#[tokio::test]
async fn a_turn_that_cannot_be_cancelled_is_ended_with_its_agent() {
    let flags = ["--ignore-cancel", "--ignore-sigterm", "--ignore-eof", "--detach", "1", "--load"];
    let mut desk = Desk::start(&flags).await;
    let session = desk.active().await;
    let turn = desk.api.prompt(&session, "say a\nstall").await;
    desk.until_event(&session, "message.delta").await;
    let before: Vec<i32> = desk.processes().iter().map(|found| found.pid).collect();

    let since = Instant::now();
    let path = format!("/api/sessions/{session}/turns/{turn}/cancel");
    desk.api.post(&path, json!({})).await.expect(200);
    let turn = desk.api.finished(&session, &turn).await;
    eventually("none of these is left", async || {
        desk.processes().iter().all(|found| !before.contains(&found.pid)).then_some(())
    })
    .await;
    let took = since.elapsed();
    let next = desk.said(&session, "say b").await;

    assert!(took < BOUND, "{took:?}");
    assert_eq!(turn["errorCode"], "cancelled");
    assert_eq!(next, "b", "the session goes on with another process");
    desk.assert_sound();
}

#[tokio::test]
async fn an_agent_that_has_not_come_up_yet_can_be_cancelled() {
    let mut desk =
        Desk::start(&["--silent", "initialize", "--ignore-sigterm", "--ignore-eof"]).await;
    let session = desk.create().await;

    let since = Instant::now();
    desk.api.delete(&format!("/api/sessions/{session}")).await.expect(200);
    desk.nothing_runs().await;

    assert!(since.elapsed() < BOUND, "{:?}", since.elapsed());
    assert_eq!(desk.session(&session).await["state"], "cancelled");
    desk.assert_sound();
}

#[tokio::test]
async fn a_turn_has_its_own_time() {
    let setup = crate::desk::Setup::default().agent("timeout_minutes = 0.02");
    let mut desk = setup.start().await;
    let session = desk.active().await;

    let turn = desk.run(&session, "say a\nstall").await;

    assert_eq!(
        (&turn["status"]["key"], &turn["errorCode"]),
        (&json!("failed"), &json!("agent_timeout"))
    );
    desk.assert_sound();
}

#[tokio::test]
async fn a_turn_that_waits_behind_one_that_cannot_be_cancelled_is_run_by_the_next_process() {
    let mut desk = Desk::start(&["--ignore-cancel", "--load"]).await;
    let session = desk.active().await;
    let turn = desk.api.prompt(&session, "say a\nstall").await;
    desk.until_event(&session, "message.delta").await;
    let queued = desk.api.enqueue(&session, "say b").await;

    let path = format!("/api/sessions/{session}/turns/{turn}/cancel");
    desk.api.post(&path, json!({})).await.expect(200);
    let queued = desk.api.finished(&session, &queued).await;

    assert_eq!(queued["status"]["key"], "completed", "{queued}");
    assert_eq!(desk.said_in(&session, queued["id"].as_str().unwrap()).await, "b");
    desk.assert_sound();
}
