//! A server starts, is found, refuses a second one, and ends in order.

use std::{fs, os::unix::fs::PermissionsExt};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::{TestHome, TestServer, http_client};

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn the_first_line_says_where_the_server_is_and_everything_is_private() {
    let mut server = TestServer::start().await;

    let (status, who) = server.get("/api/whoami").await;

    assert_eq!((status.as_u16(), &who["user"]["name"]), (200, &json!("owner")));
    assert!(server.url().starts_with("http://127.0.0.1:"));
    assert_eq!(mode(server.home().path()), 0o700);
    assert_eq!(mode(&server.home().file("token")), 0o600);
    assert_eq!(mode(&server.home().file("skein.db")), 0o600);
    let lock: Value =
        serde_json::from_str(&fs::read_to_string(server.home().file("lock")).unwrap()).unwrap();
    assert_eq!(lock, json!({"pid": server.pid(), "url": server.url()}));
    assert_eq!(server.terminate().await.code(), Some(0));
}

#[tokio::test]
async fn a_second_server_on_the_same_home_is_refused_with_the_first_ones_place() {
    let server = TestServer::start().await;

    let refused = server.home().run(&["serve", "--listen", "127.0.0.1:0"]);

    assert_eq!((refused.code, refused.stdout.as_str()), (Some(5), ""));
    assert!(refused.stderr.contains(server.url()), "{}", refused.stderr);
    assert!(refused.stderr.contains(&server.pid().to_string()), "{}", refused.stderr);
    assert_eq!(server.get("/readyz").await.0, 200);
}

#[tokio::test]
async fn an_address_that_is_taken_is_refused() {
    let server = TestServer::start().await;
    let other = TestHome::new();

    let refused = other.run(&["serve", "--listen", server.address()]);

    assert_eq!(refused.code, Some(5));
    assert!(refused.stderr.contains("cannot listen on"), "{}", refused.stderr);
}

#[tokio::test]
async fn sessions_and_the_token_survive_a_kill() {
    let mut server = TestServer::start().await;
    let (_, session) = server.post("/api/sessions", json!({"name": "kept"})).await;
    let token = server.token().to_owned();

    server.restart().await;

    let id = session["id"].as_str().unwrap();
    let (status, found) = server.get(&format!("/api/sessions/{id}")).await;
    assert_eq!((status.as_u16(), &found["name"]), (200, &json!("kept")));
    assert_eq!(server.token(), token);
}

#[tokio::test]
async fn a_lost_token_file_is_replaced_and_the_old_token_still_works() {
    let mut server = TestServer::start().await;
    let old = server.token().to_owned();
    server.terminate().await;
    fs::remove_file(server.home().file("token")).unwrap();

    server.restart().await;

    assert_ne!(server.token(), old);
    assert_eq!(server.get("/api/whoami").await.0, 200);
    let with_old = http_client().get(format!("{}/api/whoami", server.url())).bearer_auth(&old);
    assert_eq!(with_old.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn both_signals_end_the_server_in_order() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = TestServer::start().await;
        server.post("/api/ai/agent/execute", json!({"instruction": "hello"})).await;

        server.signal(signal);
        let status = server.exited().await;

        assert_eq!(status.code(), Some(0), "{signal:?}");
        let left = fs::metadata(server.home().file("skein.db-wal")).map_or(0, |file| file.len());
        assert_eq!(left, 0, "the write-ahead log was left behind");
        assert_eq!(fs::read_to_string(server.home().file("lock")).unwrap(), "");
    }
}

#[tokio::test]
async fn a_second_signal_ends_a_server_that_waits_for_a_turn_at_once() {
    let mut server = TestServer::with_config(
        "[sessions]\ndefault_agent = 'slow'\n[agents.slow]\nruntime = 'echo'\nchunks = 20000000\nchunk_bytes = 1\n",
    )
    .await;
    let (_, session) = server.post("/api/sessions", json!({})).await;
    let prompt = format!("/api/sessions/{}/prompt", session["id"].as_str().unwrap());
    server.post(&prompt, json!({"text": "take your time"})).await;

    server.signal(Signal::TERM);
    while server.get("/readyz").await.0 != 503 {}
    let refused = server.post("/api/ai/agent/execute", json!({"instruction": "more"})).await;
    server.signal(Signal::TERM);
    let status = server.exited().await;
    server.restart().await;

    assert_eq!((refused.0.as_u16(), &refused.1["code"]), (503, &json!("draining")));
    assert_eq!(status.code(), Some(130));
    let path = format!("/api/sessions/{}/turns/last", session["id"].as_str().unwrap());
    assert_eq!(server.get(&path).await.1["errorCode"], "interrupted");
}
