//! Completing, suspending, resuming, cancelling and purging sessions.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Api, EventStream, Reply, eventually},
    redact::redact,
    shapes::{new_session, with},
    start,
};

#[tokio::test]
async fn a_completed_session_is_final_and_completing_it_again_changes_nothing() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;

    let completed = act(&api, &session, "complete", json!({})).await.expect(200);
    let again = act(&api, &session, "complete", json!({})).await.expect(200);

    let expected =
        with(new_session(), json!({"status": "completed", "state": "completed", "revision": 2}));
    assert_eq!(redact(&completed.json(), &[(&session, "SESSION")]), expected);
    assert_eq!(again.json(), completed.json());
    assert_eq!(refused(&api, &session, "suspend").await, "409 session_not_active");
    assert_eq!(refused(&api, &session, "resume").await, "409 session_not_active");
    assert_eq!(refused_prompt(&api, &session).await, "409 session_not_active");
    let deleted = api.delete(&format!("/api/sessions/{session}")).await.expect(200);
    assert_eq!(deleted.json()["state"], "completed");
    assert_eq!(api.log(&session).await.types(), ["session.created", "session.completed"]);
}

#[tokio::test]
async fn a_suspended_session_has_a_checkpoint_and_takes_instructions_again_once_resumed() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;

    let suspended = act(&api, &session, "suspend", json!({"reason": "lunch"})).await.expect(200);
    let twice = refused(&api, &session, "suspend").await;
    let prompt = refused_prompt(&api, &session).await;
    let resumed = act(&api, &session, "resume", json!({"interface": "cli"})).await.expect(200);

    let expected = with(
        new_session(),
        json!({
            "state": "suspended",
            "revision": 2,
            "checkpointId": "ID",
            "metadata": {"suspend_reason": "lunch"},
        }),
    );
    assert_eq!(redact(&suspended.json(), &[(&session, "SESSION")]), expected);
    assert_eq!(
        (twice.as_str(), prompt.as_str()),
        ("409 session_suspended", "409 session_suspended")
    );
    let expected = with(
        new_session(),
        json!({"state": "active", "revision": 3, "checkpointId": "ID", "interface": "cli"}),
    );
    assert_eq!(redact(&resumed.json(), &[(&session, "SESSION")]), expected);
    assert_eq!(refused(&api, &session, "resume").await, "409 session_not_suspended");
    let turn = api.prompt(&session, "go on").await;
    assert_eq!(api.finished(&session, &turn).await["status"]["key"], "completed");
}

#[tokio::test]
async fn the_log_tells_of_every_change_of_state() {
    let (_server, api) = start().await;
    let session = api.create(json!({"interface": "web"})).await;
    let suspended = act(&api, &session, "suspend", json!({"reason": "lunch"})).await.expect(200);
    act(&api, &session, "resume", json!({})).await.expect(200);
    api.delete(&format!("/api/sessions/{session}?reason=enough")).await.expect(200);

    let log = api.log(&session).await;

    let checkpoint = suspended.text("checkpointId");
    let names = [(session.as_str(), "SESSION"), (checkpoint.as_str(), "CHECKPOINT")];
    let event = |seq: u64, kind: &str, data: Value| json!({"seq": seq, "type": kind, "sessionId": "SESSION", "turnId": null, "at": "TIME", "data": data});
    let events: Vec<_> = log.json().iter().map(|event| redact(event, &names)).collect();
    assert_eq!(
        events,
        [
            event(
                1,
                "session.created",
                json!({"state": "created", "revision": 1, "interface": "web"})
            ),
            event(
                2,
                "session.suspended",
                json!({"state": "suspended", "revision": 2, "reason": "lunch", "checkpointId": "CHECKPOINT"})
            ),
            event(
                3,
                "session.resumed",
                json!({"state": "active", "revision": 3, "interface": "web"})
            ),
            event(
                4,
                "message.completed",
                json!({"messageId": "ID", "role": "system", "content": {"type": "status", "reason": "enough"}})
            ),
            event(
                5,
                "session.cancelled",
                json!({"state": "cancelled", "revision": 4, "reason": "enough"})
            ),
        ]
    );
}

#[tokio::test]
async fn delete_cancels_with_a_reason_and_is_idempotent() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let path = format!("/api/sessions/{session}");

    let cancelled = api.delete(&format!("{path}?reason=enough")).await.expect(200);
    let again = api.delete(&path).await.expect(200);

    let expected = with(
        new_session(),
        json!({
            "status": "cancelled",
            "state": "cancelled",
            "revision": 2,
            "metadata": {"reason": "enough"},
        }),
    );
    assert_eq!(redact(&cancelled.json(), &[(&session, "SESSION")]), expected);
    assert_eq!(again.json(), cancelled.json());
    assert_eq!(refused(&api, &session, "complete").await, "409 session_not_active");
}

#[tokio::test]
async fn purge_removes_a_session_with_its_history_and_ends_its_streams() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let turn = api.prompt(&session, "hello").await;
    let finished = api.finished(&session, &turn).await;
    let payload = finished["fullAgentAnswerUrl"].as_str().unwrap().to_owned();
    let path = format!("/api/sessions/{session}");
    let mut stream = api.follow(&session, 0).await;
    stream.next().await.unwrap();

    api.delete(&format!("{path}?purge=true")).await.expect(200);

    stream.rest().await;
    for gone in [
        path.clone(),
        format!("{path}/messages"),
        format!("{path}/turns"),
        format!("{path}/turns/{turn}"),
        format!("{path}/events"),
        payload,
    ] {
        assert_eq!(api.get(&gone).await.refusal(), (404, "not_found".to_owned()), "{gone}");
    }
    assert_eq!(api.get("/api/sessions").await.json()["total"], 0);
}

#[tokio::test]
async fn a_viewer_may_not_purge_and_neither_may_a_member_who_does_not_own_the_session() {
    let (_server, api) = start().await;
    let session = api.create(json!({"isPublic": true})).await;
    let body = json!({"name": "v", "role": "viewer"});
    let viewer = api.post("/api/tokens", body).await.expect(201).text("token");

    let refused =
        api.with_token(&viewer).delete(&format!("/api/sessions/{session}?purge=true")).await;

    assert_eq!(refused.refusal(), (403, "forbidden".to_owned()));
    api.get(&format!("/api/sessions/{session}")).await.expect(200);
}

#[tokio::test]
async fn a_busy_session_is_suspended_or_completed_only_with_interrupt() {
    let (_server, api) = start().await;
    for (action, state) in [("suspend", "suspended"), ("complete", "completed")] {
        let session = api.create(json!({"agent": "slow"})).await;
        let turn = api.prompt(&session, "work").await;

        let refused = act(&api, &session, action, json!({})).await;
        let done = act(&api, &session, action, json!({"interrupt": true})).await.expect(200);

        assert_eq!(refused.refusal(), (409, "turn_in_progress".to_owned()), "{action}");
        assert_eq!(refused.text("turnId"), turn, "{action}");
        assert_eq!(done.json()["state"], state);
        let ended = api.turn(&session, &turn).await;
        assert_eq!(
            (&ended["status"]["key"], &ended["errorCode"]),
            (&json!("failed"), &json!("interrupted"))
        );
    }
}

#[tokio::test]
async fn delete_fails_the_running_and_the_queued_turns_as_cancelled() {
    let (_server, api) = start().await;
    let session = api.create(json!({"agent": "slow"})).await;
    let running = api.prompt(&session, "work").await;
    let queued = api.enqueue(&session, "more work").await;

    let deleted = api.delete(&format!("/api/sessions/{session}")).await.expect(200).json();

    assert_eq!(deleted["status"], "cancelled");
    for turn in [running, queued] {
        let ended = api.turn(&session, &turn).await;
        assert_eq!(
            (&ended["status"]["key"], &ended["errorCode"]),
            (&json!("failed"), &json!("cancelled"))
        );
    }
}

#[tokio::test]
async fn a_stream_stays_open_after_a_final_state_and_shows_later_edits() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let mut stream = api.follow(&session, 0).await;

    act(&api, &session, "complete", json!({})).await.expect(200);
    api.patch(&format!("/api/sessions/{session}"), json!({"name": "filed"})).await.expect(200);

    let seen = stream.through(3).await;
    assert_eq!(seen.types(), ["session.created", "session.completed", "session.updated"]);
}

#[tokio::test]
async fn queued_turns_wait_while_a_session_is_suspended_and_start_when_it_is_resumed() {
    let (_server, api) = start().await;
    let session = api.create(json!({"agent": "slow"})).await;
    api.prompt(&session, "first").await;
    let queued = api.enqueue(&session, "second").await;
    act(&api, &session, "suspend", json!({"interrupt": true})).await.expect(200);
    assert_eq!(api.turn(&session, &queued).await["status"]["key"], "pending");

    let request = api.request(Method::GET, &format!("/api/sessions/{session}/events"));
    let mut stream = EventStream::open(request).await;
    act(&api, &session, "resume", json!({})).await.expect(200);

    let seen = stream.until(|frame| frame.event == "turn.started").await;
    assert_eq!(seen.json().last().unwrap()["turnId"], queued);
    api.delete(&format!("/api/sessions/{session}")).await.expect(200);
    eventually("the queued turn has ended", async || {
        (api.turn(&session, &queued).await["status"]["key"] == "failed").then_some(())
    })
    .await;
}

async fn act(api: &Api, session: &str, action: &str, body: Value) -> Reply {
    api.post(&format!("/api/sessions/{session}/{action}"), body).await
}

async fn refused(api: &Api, session: &str, action: &str) -> String {
    let (status, code) = act(api, session, action, json!({})).await.refusal();
    format!("{status} {code}")
}

async fn refused_prompt(api: &Api, session: &str) -> String {
    let path = format!("/api/sessions/{session}/prompt");
    let (status, code) = api.post(&path, json!({"text": "x"})).await.refusal();
    format!("{status} {code}")
}
