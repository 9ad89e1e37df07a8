//! Tokens: what they open, and when they stop.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use skein_core::model::Timestamp;
use tokio::time::{Instant, timeout};

use crate::{
    harness::{Api, Reply, eventually},
    redact::redact,
    start,
};

#[tokio::test]
async fn whoami_tells_who_is_calling_and_what_they_may_do() {
    let (_server, api) = start().await;

    let owner = api.get("/api/whoami").await.expect(200).json();
    let viewer = issue(&api, json!({"name": "reader", "role": "viewer"})).await;
    let viewer = viewer.get("/api/whoami").await.expect(200).json();

    assert_eq!(
        redact(&owner, &[]),
        json!({
            "org": {"id": "ID", "name": "default"},
            "user": {"id": "ID", "name": "owner", "role": "owner", "instanceOwner": true},
            "token": {"id": "ID", "name": "first run", "sessionId": null, "expiresAt": null},
            "role": "owner",
        })
    );
    assert_eq!((&viewer["role"], &viewer["token"]["name"]), (&json!("viewer"), &json!("reader")));
}

#[tokio::test]
async fn a_token_is_shown_once_and_listed_without_its_secret() {
    let (_server, api) = start().await;

    let body = json!({"name": "t", "role": "member", "expiresAt": "2101-01-01T00:00:00.000Z"});
    let created = api.post("/api/tokens", body).await.expect(201).json();
    let listed = api.get("/api/tokens").await.expect(200).json();

    assert!(created["token"].as_str().unwrap().starts_with("skein_"));
    let mut without_secret = created.clone();
    without_secret.as_object_mut().unwrap().remove("token");
    assert_eq!(listed["tokens"][0], without_secret);
    assert_eq!(
        redact(&without_secret, &[]),
        json!({
            "id": "ID",
            "name": "t",
            "role": "member",
            "userId": "ID",
            "sessionId": null,
            "createdAt": "TIME",
            "expiresAt": "TIME",
            "revokedAt": null,
        })
    );
}

#[tokio::test]
async fn tokens_are_listed_page_by_page() {
    let (_server, api) = start().await;
    for name in ["second", "third"] {
        api.post("/api/tokens", json!({"name": name, "role": "member"})).await.expect(201);
    }
    let names = |page: &Value| -> Vec<Value> {
        page["tokens"].as_array().unwrap().iter().map(|token| token["name"].clone()).collect()
    };

    let first = api.get("/api/tokens?limit=2").await.expect(200).json();
    let cursor = first["nextCursor"].as_str().unwrap();
    let last = api.get(&format!("/api/tokens?limit=2&cursor={cursor}")).await.expect(200).json();

    assert_eq!(names(&first), ["third", "second"]);
    assert_eq!((names(&last), &last["nextCursor"]), (vec![json!("first run")], &Value::Null));
}

#[tokio::test]
async fn a_viewer_reads_and_changes_nothing() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let turn = api.prompt(&session, "hello").await;
    api.finished(&session, &turn).await;
    let viewer = issue(&api, json!({"name": "v", "role": "viewer"})).await;
    let before = api.log(&session).await;
    let path = format!("/api/sessions/{session}");

    let refusals = [
        viewer.post("/api/sessions", json!({})).await,
        viewer.post("/api/ai/agent/execute", json!({"instruction": "x"})).await,
        viewer.post(&format!("{path}/prompt"), json!({"text": "x"})).await,
        viewer.post(&format!("{path}/turns/{turn}/rerun"), json!({})).await,
        viewer.post(&format!("{path}/turns/{turn}/cancel"), json!({})).await,
        viewer.patch(&path, json!({"name": "x"})).await,
        viewer.post(&format!("{path}/complete"), json!({})).await,
        viewer.post(&format!("{path}/suspend"), json!({})).await,
        viewer.delete(&path).await,
        viewer.delete(&format!("{path}?purge=true")).await,
        viewer.post("/api/tokens", json!({"name": "x", "role": "member"})).await,
    ];

    for (index, refused) in refusals.iter().enumerate() {
        assert_eq!(refused.refusal(), (403, "forbidden".to_owned()), "request {index}");
    }
    viewer.get(&path).await.expect(200);
    viewer.get(&format!("{path}/messages")).await.expect(200);
    assert_eq!(api.log(&session).await, before);
}

#[tokio::test]
async fn a_token_for_one_session_opens_that_session_and_nothing_else() {
    let (_server, api) = start().await;
    let (mine, other) = (api.create(json!({})).await, api.create(json!({})).await);
    let scoped = issue(&api, json!({"name": "s", "role": "member", "sessionId": mine})).await;

    let turn = scoped.prompt(&mine, "hello").await;
    scoped.finished(&mine, &turn).await;

    for path in ["", "/messages", "/turns", "/events"] {
        let refused = scoped.get(&format!("/api/sessions/{other}{path}")).await;
        assert_eq!(refused.refusal(), (404, "not_found".to_owned()), "{path}");
    }
    let listed = scoped.get("/api/sessions").await.expect(200).json();
    assert_eq!((&listed["total"], &listed["sessions"][0]["id"]), (&json!(1), &json!(mine)));
    let created = scoped.post("/api/sessions", json!({})).await;
    assert_eq!(created.refusal(), (403, "forbidden".to_owned()));
    let widened = scoped.post("/api/tokens", json!({"name": "w", "role": "member"})).await;
    assert_eq!(widened.refusal(), (403, "forbidden".to_owned()));
}

#[tokio::test]
async fn an_expired_token_opens_nothing() {
    let (_server, api) = start().await;
    let created = api.get("/api/whoami").await.headers["date"].clone();
    let soon = now_from(created.to_str().unwrap()).saturating_add(Duration::from_secs(3));
    let token = issue(&api, json!({"name": "e", "role": "viewer", "expiresAt": soon})).await;
    token.get("/api/whoami").await.expect(200);

    let refused = eventually("the token has expired", async || {
        let reply = token.get("/api/whoami").await;
        (reply.status != 200).then_some(reply)
    })
    .await;

    assert_eq!(refused.refusal(), (401, "unauthenticated".to_owned()));
}

#[tokio::test]
async fn a_revoked_token_is_refused_at_once_and_its_streams_end_within_five_seconds() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let body = json!({"name": "r", "role": "member"});
    let created = api.post("/api/tokens", body).await.expect(201);
    let revoked = api.with_token(&created.text("token"));
    let mut stream = revoked.follow(&session, 0).await;
    stream.next().await.unwrap();
    let mut unaffected = api.follow(&session, 1).await;

    let path = format!("/api/tokens/{}", created.text("id"));
    let reply = api.delete(&path).await;
    let since = Instant::now();

    assert_eq!((reply.status, reply.body.len()), (204, 0));
    assert_eq!(revoked.get("/api/whoami").await.refusal(), (401, "unauthenticated".to_owned()));
    timeout(Duration::from_secs(6), stream.rest()).await.expect("the stream ends");
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    assert_eq!(api.delete(&path).await.status, 204);
    api.patch(&format!("/api/sessions/{session}"), json!({"name": "x"})).await.expect(200);
    assert_eq!(unaffected.through(2).await.ids(), [2]);
}

#[tokio::test]
async fn a_missing_or_wrong_token_is_answered_alike_and_says_how_to_authenticate() {
    let (_server, api) = start().await;
    let wrong = format!("skein_{}", "0".repeat(64));
    let without = api.anonymous(Method::GET, "/api/sessions");
    let with =
        |value: String| api.anonymous(Method::GET, "/api/sessions").header("authorization", value);
    let requests = [
        without,
        with(format!("Bearer {wrong}")),
        with(format!("Basic {}", api.token)),
        with("Bearer".to_owned()),
        with(api.token.clone()),
        with(format!("Bearer {}x", api.token)),
        with(format!("Bearer {}", api.token.to_uppercase())),
    ];

    for request in requests {
        let reply = Reply::to(request).await;
        assert_eq!(reply.refusal(), (401, "unauthenticated".to_owned()));
        assert!(reply.header("www-authenticate").is_some_and(|value| value.starts_with("Bearer")));
    }
}

#[tokio::test]
async fn bad_token_requests_are_refused() {
    let (_server, api) = start().await;
    let unknown = "01890a5d-ac96-774b-bcce-b302099a8057";
    let cases: [(Value, u16, &str); 8] = [
        (json!({"name": "x", "role": "emperor"}), 400, "invalid_request"),
        (json!({"name": "x"}), 400, "invalid_request"),
        (json!({"role": "viewer"}), 400, "invalid_request"),
        (
            json!({"name": "x", "role": "viewer", "expiresAt": "2001-01-01T00:00:00Z"}),
            400,
            "invalid_request",
        ),
        (json!({"name": "x", "role": "viewer", "expiresAt": "tomorrow"}), 400, "invalid_request"),
        (json!({"name": "x", "role": "viewer", "sessionId": unknown}), 422, "unknown_reference"),
        (json!({"name": "x", "role": "viewer", "userId": unknown}), 422, "unknown_reference"),
        (json!({"name": "x", "role": "viewer", "sessionId": "X"}), 400, "invalid_id"),
    ];

    for (body, status, code) in cases {
        let reply = api.post("/api/tokens", body.clone()).await;
        assert_eq!(reply.refusal(), (status, code.to_owned()), "{body}");
    }
    assert_eq!(api.get("/api/tokens").await.json()["tokens"].as_array().unwrap().len(), 1);
    let reply = api.delete(&format!("/api/tokens/{unknown}")).await;
    assert_eq!(reply.refusal(), (404, "not_found".to_owned()));
}

async fn issue(api: &Api, body: Value) -> Api {
    let token = api.post("/api/tokens", body).await.expect(201).text("token");
    api.with_token(&token)
}

/// The server's time from a `Date` header, so that the test does not depend on its own clock.
fn now_from(date: &str) -> Timestamp {
    let parts: Vec<&str> = date.split([' ', ':']).collect();
    let months = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = months.find(parts[2]).unwrap() / 3 + 1;
    let text =
        format!("{}-{month:02}-{}T{}:{}:{}.000Z", parts[3], parts[1], parts[4], parts[5], parts[6]);
    text.parse().unwrap()
}
