//! Limits that keep one caller from taking what is everyone's.

use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    common::TestServer,
    harness::{AGENTS, Api, Reply, eventually},
};

async fn with_limits(limits: &str) -> (TestServer, Api) {
    let server = TestServer::with_config(&format!("{AGENTS}\n[limits]\n{limits}\n")).await;
    let api = Api::of(&server);
    (server, api)
}

#[tokio::test]
async fn a_user_who_is_too_fast_is_told_when_to_come_back_and_health_is_not_held_up() {
    let (_server, api) = with_limits("requests_per_second_per_user = 1\nburst = 2").await;
    let second = api.post("/api/tokens", json!({"name": "same user", "role": "viewer"})).await;
    let other_token = api.with_token(&second.expect(201).text("token"));

    let let_in = api.get("/api/whoami").await.status;
    let refused = eventually("a request is too much", async || {
        let reply = other_token.get("/api/whoami").await;
        (reply.status != 200).then_some(reply)
    })
    .await;
    let health = Reply::to(api.anonymous(Method::GET, "/healthz")).await;

    assert_eq!(let_in, 200);
    assert_eq!(refused.refusal(), (429, "rate_limited".to_owned()));
    assert_eq!(refused.json()["retryable"], true);
    let pause: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=2).contains(&pause), "{pause}");
    assert_eq!(health.status, 200);
}

#[tokio::test]
async fn an_organisation_at_its_limit_leaves_room_for_another() {
    let (server, api) = with_limits("in_flight_per_org = 1").await;
    let org = api.post("/api/orgs", json!({"name": "acme"})).await.expect(201).text("id");
    let users = format!("/api/orgs/{org}/users");
    let other = api.post(&users, json!({"name": "ada", "role": "admin"})).await.expect(201);
    let other = api.with_token(&other.text("token"));

    // A body that does not come keeps its request in flight.
    let mut stalled = TcpStream::connect(server.address()).await.unwrap();
    let head = format!(
        "POST /api/sessions HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n",
        server.address(),
        api.token,
    );
    stalled.write_all(head.as_bytes()).await.unwrap();
    let refused = eventually("the organisation is at its limit", async || {
        let reply = api.get("/api/whoami").await;
        (reply.status != 200).then_some(reply)
    })
    .await;
    let others = other.get("/api/whoami").await.status;
    stalled.write_all(b"{}").await.unwrap();
    let mut answer = [0; 12];
    stalled.read_exact(&mut answer).await.unwrap();

    assert_eq!(refused.refusal(), (429, "rate_limited".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(others, 200);
    assert_eq!(&answer, b"HTTP/1.1 201");
    eventually("there is room again", async || {
        (api.get("/api/whoami").await.status == 200).then_some(())
    })
    .await;
}
