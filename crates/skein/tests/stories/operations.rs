//! What operators and tools ask: health, metrics, documentation; and what is refused at the door.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Api, Reply},
    start,
};

#[tokio::test]
async fn health_and_documentation_need_no_token() {
    let (_server, api) = start().await;

    for path in ["/healthz", "/livez", "/readyz", "/openapi.json", "/docs/"] {
        let reply = Reply::to(api.anonymous(Method::GET, path)).await;
        assert_eq!(reply.status, 200, "{path}: {}", String::from_utf8_lossy(&reply.body));
    }
    let root = Reply::to(api.anonymous(Method::GET, "/")).await;
    assert_eq!(root.status, 200, "the redirect to the documentation was followed");
}

#[tokio::test]
async fn metrics_count_requests_and_are_for_admins() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let with = async |body: Value| {
        api.with_token(&api.post("/api/tokens", body).await.expect(201).text("token"))
    };
    let admin = with(json!({"name": "a", "role": "admin"})).await;
    let member = with(json!({"name": "m", "role": "member"})).await;
    let bound = with(json!({"name": "b", "role": "admin", "sessionId": session})).await;

    let metrics = api.get("/metrics").await.expect(200);
    admin.get("/metrics").await.expect(200);
    let anonymous = Reply::to(api.anonymous(Method::GET, "/metrics")).await;

    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    assert!(text.lines().any(|line| line.starts_with("# TYPE ")), "{text}");
    assert_eq!(anonymous.refusal(), (401, "unauthenticated".to_owned()));
    for refused in [member, bound] {
        assert_eq!(refused.get("/metrics").await.refusal(), (403, "forbidden".to_owned()));
    }
}

#[tokio::test]
async fn the_openapi_document_describes_every_route_that_the_stories_use() {
    let (_server, api) = start().await;

    let document = api.get("/openapi.json").await.expect(200).json();

    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let expected = [
        ("/api/ai/agent/execute", "post"),
        ("/api/sessions", "get"),
        ("/api/sessions", "post"),
        ("/api/sessions/{id}", "get"),
        ("/api/sessions/{id}", "patch"),
        ("/api/sessions/{id}", "delete"),
        ("/api/sessions/{id}/prompt", "post"),
        ("/api/sessions/{id}/messages", "get"),
        ("/api/sessions/{id}/events", "get"),
        ("/api/sessions/{id}/complete", "post"),
        ("/api/sessions/{id}/suspend", "post"),
        ("/api/sessions/{id}/resume", "post"),
        ("/api/sessions/{id}/turns", "get"),
        ("/api/sessions/{id}/turns/last", "get"),
        ("/api/sessions/{id}/turns/{turn}", "get"),
        ("/api/sessions/{id}/turns/{turn}/summary", "get"),
        ("/api/sessions/{id}/turns/{turn}/context", "get"),
        ("/api/sessions/{id}/turns/{turn}/rerun", "post"),
        ("/api/sessions/{id}/turns/{turn}/cancel", "post"),
        ("/api/users/{user}/sessions", "get"),
        ("/api/payloads/{id}", "get"),
        ("/api/tokens", "get"),
        ("/api/tokens", "post"),
        ("/api/tokens/{id}", "delete"),
        ("/api/whoami", "get"),
        ("/api/orgs", "post"),
        ("/api/orgs/{org}/users", "post"),
        ("/api/users", "get"),
        ("/api/users/{user}", "get"),
        ("/api/users/{user}", "patch"),
        ("/api/repos", "get"),
        ("/api/repos", "post"),
        ("/api/repos/{id}", "get"),
        ("/api/agent-contexts", "get"),
        ("/api/agent-contexts", "post"),
        ("/api/agent-contexts/{id}", "get"),
        ("/api/agent-contexts/{id}", "put"),
        ("/api/conversation-contexts", "get"),
        ("/api/conversation-contexts", "post"),
        ("/api/conversation-contexts/{id}", "get"),
        ("/api/conversation-contexts/{id}", "put"),
        ("/api/audit", "get"),
        ("/api/audit/verify", "get"),
    ];
    let described = |(path, method): &(&str, &str)| {
        let operation = document["paths"].get(path).and_then(|path| path.get(method));
        operation.is_some_and(|operation| operation["responses"].is_object())
    };
    let missing: Vec<_> = expected.iter().filter(|route| !described(route)).collect();
    assert_eq!(missing, Vec::<&(&str, &str)>::new());
}

#[tokio::test]
async fn the_documentation_loads_nothing_from_elsewhere() {
    let (_server, api) = start().await;

    let page = Reply::to(api.anonymous(Method::GET, "/docs/")).await.expect(200);

    let html = String::from_utf8(page.body.to_vec()).unwrap();
    for outside in ["src=\"http", "href=\"http", "src=\"//", "href=\"//"] {
        assert!(!html.contains(outside), "{outside} in {html}");
    }
}

#[tokio::test]
async fn unknown_routes_and_methods_are_problems_too() {
    let (_server, api) = start().await;

    let unknown = api.get("/api/nothing").await;
    let method = Reply::to(api.request(Method::PUT, "/api/sessions").json(&json!({}))).await;

    assert_eq!(unknown.refusal(), (404, "not_found".to_owned()));
    assert_eq!(method.refusal(), (405, "method_not_allowed".to_owned()));
    assert!(method.header("allow").is_some());
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused_before_anything_happens() {
    let (_server, api) = start().await;
    let port = api.url.rsplit(':').next().unwrap().to_owned();

    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example"] {
        let request = api.request(Method::POST, "/api/sessions").header("host", host);
        let reply = Reply::to(request.json(&json!({}))).await;
        assert_eq!(reply.refusal(), (421, "host_not_allowed".to_owned()), "{host}");
    }
    for origin in ["https://evil.example", "null", "http://127.0.0.1:1", "file://"] {
        let request = api.request(Method::POST, "/api/sessions").header("origin", origin);
        let reply = Reply::to(request.json(&json!({}))).await;
        assert_eq!(reply.refusal(), (403, "origin_not_allowed".to_owned()), "{origin}");
    }
    assert_eq!(total(&api).await, 0);
    for host in [format!("127.0.0.1:{port}"), format!("localhost:{port}")] {
        let request = api.request(Method::POST, "/api/sessions").header("host", &host);
        let request = request.header("origin", format!("http://{host}"));
        assert_eq!(Reply::to(request.json(&json!({}))).await.status, 201, "{host}");
    }
    assert_eq!(total(&api).await, 2);
}

#[tokio::test]
async fn every_answer_has_a_request_id_that_problems_repeat() {
    let (_server, api) = start().await;

    let fine = api.get("/api/whoami").await;
    let problem = api.get("/api/sessions/x").await;

    assert!(fine.header("x-request-id").is_some_and(|id| !id.is_empty()));
    assert_eq!(problem.header("x-request-id"), Some(problem.text("requestId").as_str()));
}

async fn total(api: &Api) -> Value {
    api.get("/api/sessions").await.expect(200).json()["total"].clone()
}
