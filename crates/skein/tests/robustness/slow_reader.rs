//! A reader that takes nothing is closed; nobody else notices, and it can resume.

use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    common::TestServer,
    harness::{Api, EventStream, eventually},
};

/// More than the buffers between two sockets hold.
const CONFIG: &str = r#"
[agents.loud]
runtime = "echo"
chunks = 6000
chunk_bytes = 4000
coalesce = false
"#;

#[tokio::test]
async fn a_reader_that_takes_nothing_is_closed_and_nobody_else_notices() {
    let server = TestServer::with_config(CONFIG).await;
    let api = Api::of(&server);
    let session = api.create(json!({"agent": "loud"})).await;
    let path = format!("/api/sessions/{session}/events");
    let mut stuck = TcpStream::connect(server.address()).await.unwrap();
    let request = format!(
        "GET {path}?after=0 HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n",
        server.address(),
        api.token
    );
    stuck.write_all(request.as_bytes()).await.unwrap();
    let mut reading = api.follow(&session, 0).await;

    api.prompt(&session, "go").await;
    let seen = reading.until(|frame| frame.event == "turn.completed").await;
    drop(reading);
    eventually("no stream is open any more", async || {
        let metrics = api.get("/metrics").await.expect(200);
        let text = String::from_utf8(metrics.body.to_vec()).unwrap();
        text.lines().any(|line| line == "skein_streams_open 0").then_some(())
    })
    .await;

    let last = seen.ids().last().copied().unwrap();
    assert_eq!(seen.ids(), (1..=last).collect::<Vec<_>>());
    let mut taken = Vec::new();
    // A connection that was cut may end with an error.
    drop(stuck.read_to_end(&mut taken).await);
    let taken = String::from_utf8_lossy(&taken).into_owned();
    let position = last_whole_frame(&taken);
    assert!((1..last).contains(&position), "the stuck reader got up to {position} of {last}");
    let resumed = api.request(Method::GET, &path).header("last-event-id", position.to_string());
    let rest = EventStream::open(resumed).await.through(last).await;
    assert_eq!(rest.ids(), (position + 1..=last).collect::<Vec<_>>());
}

/// The id of the last event that is there to its end.
fn last_whole_frame(text: &str) -> u64 {
    let whole = text.rfind("\n\n").map_or("", |end| &text[..end]);
    let id = whole.rfind("\nid: ").map(|start| &whole[start + "\nid: ".len()..]);
    id.and_then(|id| id.lines().next()).map_or(0, |id| id.trim().parse().unwrap())
}
