//! The event stream: what it carries and where it can be taken up.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{EventStream, Reply},
    redact::redact,
    start,
};

#[tokio::test]
async fn a_prompt_appears_in_the_log_event_by_event() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let mut stream = api.follow(&session, 0).await;

    let turn = api.prompt(&session, "hello").await;

    let seen = stream.until(|frame| frame.event == "turn.completed").await;
    let names = [(session.as_str(), "SESSION"), (turn.as_str(), "TURN")];
    let events: Vec<_> = seen.json().iter().map(|event| redact(event, &names)).collect();
    let opened = json!({"sequenceNumber": 1, "instruction": "hello", "mode": "ask"});
    assert_eq!(
        events,
        [
            event(
                1,
                "session.created",
                None,
                json!({"state": "created", "revision": 1, "interface": "api"})
            ),
            event(2, "session.updated", None, json!({"state": "active", "revision": 2})),
            event(3, "turn.created", Some("TURN"), opened.clone()),
            event(
                4,
                "message.completed",
                Some("TURN"),
                message("user", json!({"type": "text", "text": "hello"}))
            ),
            event(5, "turn.started", Some("TURN"), opened),
            event(
                6,
                "message.completed",
                Some("TURN"),
                message("agent", json!({"type": "text", "text": "hello", "partial": false}))
            ),
            event(7, "turn.completed", Some("TURN"), json!({"sequenceNumber": 1, "warnings": []})),
        ]
    );
    for frame in &seen.0 {
        let expected =
            format!("id: {}\nevent: {}\ndata: {}\n\n", frame.id.unwrap(), frame.event, frame.data);
        assert_eq!(frame.raw, expected);
    }
}

#[tokio::test]
async fn a_stream_starts_now_from_the_beginning_or_after_any_event() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let path = format!("/api/sessions/{session}/events");
    let open = async |query: &str, last_event_id: Option<&str>| {
        let mut request = api.request(Method::GET, &format!("{path}{query}"));
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        EventStream::open(request).await
    };
    let turn = api.prompt(&session, "hello").await;
    api.finished(&session, &turn).await;

    let mut now = open("", None).await;
    let mut start = open("?after=0", None).await;
    let mut middle = open("?after=3", None).await;
    let mut header = open("", Some("5")).await;
    let mut header_wins = open("?after=0", Some("6")).await;
    let mut end = open("?after=7", None).await;
    api.patch(&format!("/api/sessions/{session}"), json!({"name": "x"})).await.expect(200);

    assert_eq!(now.through(8).await.ids(), [8]);
    assert_eq!(start.through(8).await.ids(), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(middle.through(8).await.ids(), [4, 5, 6, 7, 8]);
    assert_eq!(header.through(8).await.ids(), [6, 7, 8]);
    assert_eq!(header_wins.through(8).await.ids(), [7, 8]);
    assert_eq!(end.through(8).await.ids(), [8]);
}

#[tokio::test]
async fn all_subscribers_see_the_same_bytes_live_and_from_the_store() {
    let (_server, api) = start().await;
    let session = api.create(json!({"agent": "echo"})).await;
    let mut subscribers = Vec::new();
    for _ in 0..5 {
        subscribers.push(api.follow(&session, 0).await);
    }

    let turn = api.prompt(&session, &"a longer text, said in pieces. ".repeat(100)).await;
    api.finished(&session, &turn).await;

    let stored = api.log(&session).await;
    for subscriber in &mut subscribers {
        let last = stored.ids().last().copied().unwrap();
        assert_eq!(subscriber.through(last).await.raw(), stored.raw());
    }
    let expected: Vec<u64> = (1..=stored.0.len() as u64).collect();
    assert_eq!(stored.ids(), expected);
}

#[tokio::test]
async fn the_deltas_of_a_message_are_its_text_without_gap_or_repetition() {
    let (_server, api) = start().await;
    let session = api.create(json!({"agent": "slow"})).await;
    let turn = api.prompt(&session, "work").await;
    let mut stream = api.follow(&session, 0).await;
    let mut seen = stream.until(|frame| frame.event == "message.delta").await.json();
    seen.extend(stream.until(|frame| frame.event == "message.delta").await.json());

    api.post(&format!("/api/sessions/{session}/turns/{turn}/cancel"), json!({})).await.expect(200);
    seen.extend(stream.until(|frame| frame.event == "turn.failed").await.json());

    let deltas: String = seen
        .iter()
        .filter(|event| event["type"] == "message.delta")
        .map(|event| event["data"]["text"].as_str().unwrap())
        .collect();
    let messages = api.get(&format!("/api/sessions/{session}/messages")).await.expect(200).json();
    assert_eq!(messages[1]["content"]["text"], deltas);
    assert_eq!(messages[1]["content"]["interrupted"], true);
}

#[tokio::test]
async fn cursors_that_are_no_position_of_the_log_are_refused() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let path = format!("/api/sessions/{session}/events");

    for cursor in ["garbage", "-1", "2", "1.5", "0x1", "99999999999999999999", "+1"] {
        let header = api.request(Method::GET, &path).header("last-event-id", cursor);
        let reply = Reply::to(header).await;
        assert_eq!(reply.refusal(), (400, "invalid_cursor".to_owned()), "header {cursor:?}");
        let query = api.get(&format!("{path}?after={}", cursor.replace('+', "%2B"))).await;
        assert_eq!(query.refusal(), (400, "invalid_cursor".to_owned()), "after={cursor}");
    }
}

fn event(seq: u64, kind: &str, turn: Option<&str>, data: Value) -> Value {
    json!({"seq": seq, "type": kind, "sessionId": "SESSION", "turnId": turn, "at": "TIME", "data": data})
}

fn message(role: &str, content: Value) -> Value {
    json!({"messageId": "ID", "role": role, "content": content})
}
