//! Requests that are sent twice.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::{
    common::TestServer,
    harness::{AGENTS, Api, Reply},
    start,
};

#[tokio::test]
async fn a_repeated_creation_is_answered_with_the_first_result() {
    let (_server, api) = start().await;
    let body = json!({"name": "once"});

    let first = post_once(&api, "/api/sessions", "key-1", &body).await.expect(201);
    let second = post_once(&api, "/api/sessions", "key-1", &body).await.expect(201);

    assert_eq!(second.json(), first.json());
    assert_eq!(first.header("idempotency-replayed"), None);
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
    assert_eq!(api.get("/api/sessions").await.json()["total"], 1);
}

#[tokio::test]
async fn a_repeated_prompt_execute_and_rerun_make_one_turn_each() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let prompt = format!("/api/sessions/{session}/prompt");

    let body = json!({"text": "hello"});
    let first = post_once(&api, &prompt, "prompt", &body).await.expect(202);
    let turn = first.text("turnId");
    api.finished(&session, &turn).await;
    let again = post_once(&api, &prompt, "prompt", &body).await.expect(202);
    let rerun = format!("/api/sessions/{session}/turns/{turn}/rerun");
    let rerun_first = post_once(&api, &rerun, "rerun", &json!({})).await.expect(202);
    api.finished(&session, &rerun_first.text("turnId")).await;
    let rerun_again = post_once(&api, &rerun, "rerun", &json!({})).await.expect(202);
    let body = json!({"sessionId": session, "instruction": "bye"});
    let execute = "/api/ai/agent/execute";
    let executed = post_once(&api, execute, "execute", &body).await.expect(200);
    let executed_again = post_once(&api, execute, "execute", &body).await.expect(200);

    for (reply, repeated) in
        [(&first, &again), (&rerun_first, &rerun_again), (&executed, &executed_again)]
    {
        assert_eq!(repeated.text("turnId"), reply.text("turnId"));
        assert_eq!(repeated.header("idempotency-replayed"), Some("true"));
    }
    assert_eq!(executed_again.json(), executed.json());
    let found = api.get(&format!("/api/sessions/{session}?include=")).await.json();
    assert_eq!(found["turnCount"], 3);
}

#[tokio::test]
async fn the_same_key_with_another_body_path_or_method_is_refused() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let prompt = format!("/api/sessions/{session}/prompt");
    let first = post_once(&api, "/api/sessions", "key", &json!({"name": "a"})).await.expect(201);

    let other_body = post_once(&api, "/api/sessions", "key", &json!({"name": "b"})).await;
    let other_path = post_once(&api, &prompt, "key", &json!({"text": "a"})).await;
    let same = post_once(&api, "/api/sessions", "key", &json!({"name": "a"})).await.expect(201);

    assert_eq!(other_body.refusal(), (422, "idempotency_key_reused".to_owned()));
    assert_eq!(other_path.refusal(), (422, "idempotency_key_reused".to_owned()));
    assert_eq!(same.text("id"), first.text("id"));
}

#[tokio::test]
async fn concurrent_duplicates_create_exactly_one() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let prompt = format!("/api/sessions/{session}/prompt");
    let name = json!({"name": "one"});
    let text = json!({"text": "one", "onBusy": "enqueue"});

    let sessions = join_all((0..16).map(|_| post_once(&api, "/api/sessions", "s", &name))).await;
    let turns = join_all((0..16).map(|_| post_once(&api, &prompt, "t", &text))).await;

    let (ids, fresh) = outcome(&sessions, 201, "id");
    assert_eq!((ids.len(), fresh), (1, 1));
    let (ids, fresh) = outcome(&turns, 202, "turnId");
    assert_eq!((ids.len(), fresh), (1, 1));
    assert_eq!(api.get("/api/sessions").await.json()["total"], 2);
    let found = api.get(&format!("/api/sessions/{session}/turns")).await.json();
    assert_eq!(found["turns"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_refusal_leaves_no_record_so_the_key_can_be_used_again() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let prompt = format!("/api/sessions/{session}/prompt");
    let body = json!({"text": "hello"});
    api.post(&format!("/api/sessions/{session}/suspend"), json!({})).await.expect(200);

    let refused = post_once(&api, &prompt, "key", &body).await;
    api.post(&format!("/api/sessions/{session}/resume"), json!({})).await.expect(200);
    let accepted = post_once(&api, &prompt, "key", &body).await;

    assert_eq!(refused.refusal(), (409, "session_suspended".to_owned()));
    assert_eq!((accepted.status, accepted.header("idempotency-replayed")), (202, None));
}

#[tokio::test]
async fn a_repeated_execute_waits_for_nobody_and_names_the_turn_that_runs() {
    let (_server, api) = start().await;
    let session = api.create(json!({"agent": "slow"})).await;
    let body = json!({"sessionId": session, "instruction": "work"});
    let execute = "/api/ai/agent/execute";
    let request = api.keyed(execute, "key", &body).header("accept", "text/event-stream");
    let mut stream = crate::harness::EventStream::open(request).await;
    let turn = stream.next().await.unwrap().json()["turnId"].as_str().unwrap().to_owned();

    let again = post_once(&api, execute, "key", &body).await;

    assert_eq!(again.refusal(), (409, "idempotency_in_progress".to_owned()));
    assert_eq!(again.text("turnId"), turn);
}

#[tokio::test]
async fn a_key_is_remembered_after_a_crash() {
    let mut server = TestServer::with_config(AGENTS).await;
    let api = Api::of(&server);
    let first = post_once(&api, "/api/sessions", "key", &json!({})).await.expect(201);

    server.restart().await;

    let api = Api::of(&server);
    let again = post_once(&api, "/api/sessions", "key", &json!({})).await.expect(201);
    assert_eq!(again.json(), first.json());
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
}

#[tokio::test]
async fn keys_of_different_users_do_not_meet_but_tokens_of_one_user_share_them() {
    let (_server, api) = start().await;
    let body = json!({"name": "t", "role": "member"});
    let token = api.post("/api/tokens", body).await.expect(201).text("token");

    let first = post_once(&api, "/api/sessions", "key", &json!({})).await.expect(201);
    let other = post_once(&api.with_token(&token), "/api/sessions", "key", &json!({})).await;

    assert_eq!(other.expect(201).text("id"), first.text("id"));
}

#[tokio::test]
async fn a_repeated_token_creation_does_not_show_the_secret_again() {
    let (_server, api) = start().await;
    let body = json!({"name": "t", "role": "viewer"});

    let first = post_once(&api, "/api/tokens", "key", &body).await.expect(201);
    let again = post_once(&api, "/api/tokens", "key", &body).await.expect(201);

    assert_eq!(again.text("id"), first.text("id"));
    assert!(first.text("token").starts_with("skein_"));
    assert!(again.json()["token"].is_null());
}

async fn post_once(api: &Api, path: &str, key: &str, body: &Value) -> Reply {
    Reply::to(api.keyed(path, key, body)).await
}

/// The distinct ids in the replies, and how many replies were not replays.
fn outcome(replies: &[Reply], status: u16, member: &str) -> (Vec<String>, usize) {
    let mut ids: Vec<String> =
        replies.iter().map(|reply| reply.clone().expect(status).text(member)).collect();
    ids.sort();
    ids.dedup();
    let fresh = replies.iter().filter(|reply| reply.header("idempotency-replayed").is_none());
    (ids, fresh.count())
}
