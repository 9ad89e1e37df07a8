//! Sessions that nobody uses are completed, and those that are in use are not.

use std::time::Duration;

use serde_json::{Value, json};

use crate::desk::{Desk, Setup};

/// 1.5 s.
const MINUTES: &str = "0.025";
const IDLE: Duration = Duration::from_millis(1_500);

async fn idle_desk(flags: &[&str]) -> Desk {
    let setup = Setup::default().flags(flags);
    setup.environment("AGENT_SESSION_IDLE_TIMEOUT", MINUTES).start().await
}

/// When the first event of a type was written.
async fn at(desk: &Desk, session: &str, kind: &str) -> jiff::Timestamp {
    let log = desk.api.log(session).await.json();
    let found = log.iter().rfind(|event| event["type"] == kind);
    let found = found.unwrap_or_else(|| panic!("no {kind}: {log:?}"));
    found["at"].as_str().unwrap().parse().unwrap()
}

fn between(from: jiff::Timestamp, to: jiff::Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap()
}

#[tokio::test]
async fn an_idle_session_is_completed_and_says_why() {
    let mut desk = idle_desk(&[]).await;
    let session = desk.active().await;
    desk.said(&session, "say hello").await;

    let completed = desk.until_state(&session, "completed").await;
    desk.nothing_runs().await;

    assert_eq!(completed["status"], "completed");
    assert_eq!(completed["metadata"]["reason"], "idle_timeout");
    let waited = between(
        at(&desk, &session, "turn.completed").await,
        at(&desk, &session, "session.completed").await,
    );
    assert!(waited >= IDLE - Duration::from_millis(50), "{waited:?}");
    let ended: Vec<Value> = desk.events(&session, "session.completed").await;
    assert_eq!(
        (&ended[0]["state"], &ended[0]["reason"]),
        (&json!("completed"), &json!("idle_timeout"))
    );
    // The document wants the agent to be told.
    assert!(!desk.received("session/cancel").is_empty(), "{:?}", desk.journal());
    desk.assert_sound();
}

#[tokio::test]
async fn a_running_turn_is_never_idle() {
    let desk = idle_desk(&[]).await;
    let session = desk.active().await;

    // One pause that is longer than the timeout, and no update in it.
    let said = desk.said(&session, "say-slowly 1 2500\nsay done").await;

    assert_eq!(said, "1 done");
    assert_eq!(desk.until_state(&session, "completed").await["metadata"]["reason"], "idle_timeout");
}

#[tokio::test]
async fn updates_of_the_agent_keep_a_session_alive() {
    // Outside of any turn: 3 s, one update every 100 ms.
    let desk = idle_desk(&["--flood", "30", "10"]).await;
    let session = desk.create().await;

    let completed = desk.until_state(&session, "completed").await;

    assert_eq!(completed["metadata"]["reason"], "idle_timeout");
    let lived = between(
        at(&desk, &session, "session.created").await,
        at(&desk, &session, "session.completed").await,
    );
    assert!(lived >= Duration::from_millis(2_900) + IDLE, "{lived:?}");
    assert_eq!(desk.messages(&session).await.len(), 1, "nobody asked for these updates");
}

#[tokio::test]
async fn a_suspended_session_has_no_agent_to_be_idle() {
    let desk = idle_desk(&["--load"]).await;
    let suspended = desk.active().await;
    let path = format!("/api/sessions/{suspended}");
    desk.api.post(&format!("{path}/suspend"), json!({})).await.expect(200);

    // Longer than another session needs to be idle.
    let other = desk.active().await;
    desk.until_state(&other, "completed").await;

    assert_eq!(desk.session(&suspended).await["state"], "suspended");
}
