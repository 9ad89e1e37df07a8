//! Starts that must not happen, and starts that must.

use serde_json::json;

use crate::{
    common::{TestHome, TestServer},
    harness::{AGENTS, Api},
    verify,
};

const SERVE: [&str; 4] = ["serve", "--listen", "127.0.0.1:0", "--json"];

#[tokio::test]
async fn a_second_server_on_the_same_home_is_refused_and_the_first_goes_on() {
    let server = TestServer::with_config(AGENTS).await;
    let home = server.home().clone();

    let second = tokio::task::spawn_blocking(move || home.run(&SERVE)).await.unwrap();

    assert_eq!(second.code, Some(5), "{second:?}");
    assert_eq!(second.stdout, "");
    assert!(second.stderr.starts_with("error: "), "{}", second.stderr);
    assert!(second.stderr.contains("hint: "), "{}", second.stderr);
    Api::of(&server).create(json!({})).await;
}

#[tokio::test]
async fn a_home_is_free_again_after_a_crash_and_its_token_stays_the_same() {
    let mut server = TestServer::with_config(AGENTS).await;
    let token = server.token().to_owned();
    let session = Api::of(&server).create(json!({"name": "kept"})).await;

    for _ in 0..3 {
        server.restart().await;
    }

    assert_eq!(server.token(), token);
    let found = Api::of(&server).get(&format!("/api/sessions/{session}")).await.expect(200);
    assert_eq!(found.json()["name"], "kept");
}

#[tokio::test]
async fn a_token_that_was_made_or_revoked_stays_so_after_a_crash() {
    let mut server = TestServer::with_config(AGENTS).await;
    let api = Api::of(&server);
    let body = json!({"name": "t", "role": "member"});
    let kept = api.post("/api/tokens", body.clone()).await.expect(201);
    let revoked = api.post("/api/tokens", body).await.expect(201);
    api.delete(&format!("/api/tokens/{}", revoked.text("id"))).await.expect(204);

    server.restart().await;

    let api = Api::of(&server);
    api.with_token(&kept.text("token")).get("/api/whoami").await.expect(200);
    api.with_token(&revoked.text("token")).get("/api/whoami").await.expect(401);
}

#[tokio::test]
async fn a_server_killed_during_its_very_first_start_starts_the_next_time() {
    let home = TestHome::with_config(AGENTS);
    for attempt in 0..10_u64 {
        let mut child = home
            .command(&SERVE)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Further into the start each time; what is interrupted does not matter.
        tokio::time::sleep(std::time::Duration::from_millis(attempt * 12)).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }

    let server = TestServer::on(home).await;

    let api = Api::of(&server);
    let session = api.create(json!({})).await;
    let turn = api.prompt(&session, "hello").await;
    assert_eq!(api.finished(&session, &turn).await["status"]["key"], "completed");
    verify::settled_session(&api, &session).await;
}
