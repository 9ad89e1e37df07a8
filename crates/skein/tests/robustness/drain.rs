//! SIGTERM: not ready at once, running turns get their time, streams end, and the next start finds everything.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    common::TestServer,
    harness::{AGENTS, Api, Reply, SLOWNESS, eventually},
    verify,
};

/// What was said to be at once.
const AT_ONCE: Duration = Duration::from_secs(1);

#[tokio::test]
async fn turns_that_need_longer_than_the_drain_are_found_at_the_next_start() {
    let agents = AGENTS.replace(SLOWNESS, "chunks = 12000000");
    let config = format!("{agents}\n[server]\ndrain_seconds = 1\n");
    let mut server = TestServer::with_config(&config).await;
    let api = Api::of(&server);
    let session = api.create(json!({"agent": "slow"})).await;
    let running = api.prompt(&session, "work").await;
    let queued = api.enqueue(&session, "later").await;
    let mut stream = api.follow(&session, 0).await;
    stream.until(|frame| frame.event == "message.delta").await;

    server.signal(Signal::TERM);
    let since = Instant::now();
    let not_ready = eventually("the server says that it is not ready", async || {
        let reply = Reply::to(api.anonymous(reqwest::Method::GET, "/readyz")).await;
        (reply.status != 200).then_some(reply)
    })
    .await;
    let at = since.elapsed();
    let prompt = format!("/api/sessions/{session}/prompt");
    let refused = api.post(&prompt, json!({"text": "no", "onBusy": "enqueue"})).await;
    let still_read = api.get(&format!("/api/sessions/{session}")).await;
    let status = server.exited().await;

    assert_eq!(not_ready.status, 503);
    assert!(at < AT_ONCE, "not ready after {at:?}");
    assert_eq!(refused.refusal(), (503, "draining".to_owned()));
    assert_eq!(still_read.status, 200);
    assert_eq!(status.code(), Some(0));
    assert!(since.elapsed() < Duration::from_secs(15), "{:?}", since.elapsed());
    stream.rest().await;

    server.home().write_config(&AGENTS.replace(SLOWNESS, "chunks = 2"));
    server.restart().await;
    let api = Api::of(&server);
    let turns = verify::settled_session(&api, &session).await;
    let outcomes: Vec<_> =
        turns.iter().map(|turn| (turn.id.as_str(), turn.status.as_str())).collect();
    assert_eq!(outcomes, [(running.as_str(), "failed"), (queued.as_str(), "completed")]);
    assert_eq!(api.turn(&session, &running).await["errorCode"], "interrupted");
}

#[tokio::test]
async fn a_turn_that_ends_in_time_is_completed_before_the_server_exits() {
    let config = format!(
        "{AGENTS}\n[agents.steady]\nruntime = \"echo\"\nchunks = 100000\nchunk_bytes = 1\n"
    );
    let mut server = TestServer::with_config(&config).await;
    let api = Api::of(&server);
    let session = api.create(json!({"agent": "steady"})).await;
    let mut stream = api.follow(&session, 0).await;
    let turn = api.prompt(&session, "work").await;
    stream.until(|frame| frame.event == "message.delta").await;

    let status = server.terminate().await;

    assert_eq!(status.code(), Some(0));
    let seen = stream.rest().await;
    server.restart().await;
    let api = Api::of(&server);
    let stored = api.log(&session).await;
    assert!(stored.raw().contains(&seen.raw()), "what was seen before the end is in the log");
    let turns = verify::settled_session(&api, &session).await;
    assert_eq!(turns.len(), 1);
    assert_eq!((turns[0].id.as_str(), turns[0].status.as_str()), (turn.as_str(), "completed"));
}

#[tokio::test]
async fn an_idle_server_exits_quickly_and_ends_its_streams() {
    let mut server = TestServer::with_config(AGENTS).await;
    let api = Api::of(&server);
    let session = api.create(json!({})).await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = api.follow(&session, 0).await;
        stream.until(|frame| frame.event == "session.created").await;
        streams.push(stream);
    }

    let since = Instant::now();
    let status = server.terminate().await;

    assert_eq!(status.code(), Some(0));
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    for mut stream in streams {
        assert!(stream.rest().await.0.is_empty());
    }
}
