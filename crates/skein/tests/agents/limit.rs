//! How many agents there may be: exactly as many as configured, whatever happens at the same time.

use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    desk::{Desk, Setup},
    harness::{Reply, eventually},
};

async fn with_limit(limit: u32, flags: &[&str]) -> Desk {
    let setup = Setup::default().flags(flags);
    setup.sessions(&format!("max_active_agents = {limit}")).start().await
}

async fn try_create(desk: &Desk) -> Reply {
    desk.api.post("/api/sessions", json!({"repoId": desk.repo})).await
}

#[track_caller]
fn assert_refused(reply: &Reply, limit: u32) {
    assert_eq!(reply.refusal(), (429, "session_limit".to_owned()));
    assert_eq!(reply.header("retry-after"), Some("60"));
    let body = reply.json();
    assert_eq!(body["retryable"], true);
    assert_eq!(body["limit"], limit, "{body}");
    assert!(body["detail"].as_str().unwrap().contains(&limit.to_string()), "{body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_creations_at_once_give_exactly_as_many_sessions_as_allowed() {
    let desk = with_limit(3, &[]).await;

    let mut creating = JoinSet::new();
    for _ in 0..20 {
        let (api, body) = (desk.api.clone(), json!({"repoId": desk.repo}));
        creating.spawn(async move { api.post("/api/sessions", body).await });
    }
    let replies = creating.join_all().await;

    let (made, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 201);
    assert_eq!((made.len(), refused.len()), (3, 17));
    refused.iter().for_each(|reply| assert_refused(reply, 3));
    let listed = desk.api.get("/api/sessions").await.expect(200).json();
    assert_eq!(listed["total"], 3, "a refusal leaves nothing behind");
    for reply in made {
        desk.until_state(&reply.text("id"), "active").await;
    }
}

#[tokio::test]
async fn the_default_limit_is_five() {
    let desk = Desk::start(&["--initialize-delay", "60000"]).await;

    for _ in 0..5 {
        desk.create().await;
    }

    assert_refused(&try_create(&desk).await, 5);
}

#[tokio::test]
async fn a_place_is_free_again_when_a_session_ends_in_any_way() {
    let desk = with_limit(1, &["--load"]).await;
    for way in ["cancel", "complete", "suspend", "crash"] {
        let session = try_create(&desk).await.expect(201).text("id");
        desk.until_state(&session, "active").await;
        assert_refused(&try_create(&desk).await, 1);

        let path = format!("/api/sessions/{session}");
        match way {
            "cancel" => desk.api.delete(&path).await.expect(200),
            "crash" => {
                desk.run(&session, "exit 3").await;
                desk.until_state(&session, "failed").await;
                desk.api.get(&path).await.expect(200)
            }
            other => desk.api.post(&format!("{path}/{other}"), json!({})).await.expect(200),
        };
    }

    try_create(&desk).await.expect(201);
}

#[tokio::test]
async fn resuming_needs_a_place_too() {
    let desk = with_limit(1, &["--load"]).await;
    let suspended = desk.active().await;
    let path = format!("/api/sessions/{suspended}");
    desk.api.post(&format!("{path}/suspend"), json!({})).await.expect(200);
    let other = desk.active().await;

    let refused = desk.api.post(&format!("{path}/resume"), json!({})).await;
    let still = desk.session(&suspended).await;
    desk.api.delete(&format!("/api/sessions/{other}")).await.expect(200);
    let resumed = desk.api.post(&format!("{path}/resume"), json!({})).await.expect(200).json();

    assert_refused(&refused, 1);
    assert_eq!(still["state"], "suspended");
    assert_eq!(resumed["state"], "active");
    assert_refused(&try_create(&desk).await, 1);
}

#[tokio::test]
async fn a_prompt_that_would_resume_a_session_needs_a_place_too() {
    let mut desk = with_limit(1, &["--load"]).await;
    let session = desk.active().await;
    desk.restart().await;
    let other = desk.active().await;

    let path = format!("/api/sessions/{session}/prompt");
    let refused = desk.api.post(&path, json!({"text": "say hello"})).await;
    desk.api.delete(&format!("/api/sessions/{other}")).await.expect(200);

    assert_refused(&refused, 1);
    assert_eq!(desk.said(&session, "say hello").await, "hello");
}

#[tokio::test]
async fn sessions_without_an_agent_process_are_not_counted() {
    let desk = with_limit(1, &[]).await;

    for _ in 0..3 {
        desk.api.create(json!({"agent": "echo"})).await;
    }
    desk.active().await;
    desk.api.create(json!({"agent": "echo"})).await;

    assert_refused(&try_create(&desk).await, 1);
}

#[tokio::test]
async fn suspended_sessions_do_not_count_after_a_restart() {
    let mut desk = with_limit(2, &["--load"]).await;
    let first = desk.active().await;
    desk.active().await;
    assert_refused(&try_create(&desk).await, 2);

    desk.restart().await;

    assert_eq!(desk.session(&first).await["state"], "suspended");
    desk.active().await;
    desk.active().await;
    assert_refused(&try_create(&desk).await, 2);
    eventually("two agents and no more", async || {
        let starts = desk.journal().iter().filter(|line| line["started"].is_number()).count();
        (starts == 4).then_some(())
    })
    .await;
}
