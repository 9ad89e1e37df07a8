//! What a person reads.

use serde_json::{Value, json};

use crate::{
    harness::{Api, eventually},
    redact::redact,
    start,
};

#[tokio::test]
async fn messages_are_the_readable_history_in_ascending_order() {
    let (_server, api) = start().await;
    let session = three_turns(&api).await;

    let messages = read(&api, &session, "").await;

    let turns: Vec<String> = messages.iter().map(|message| message["turnId"].to_string()).collect();
    let expected: Vec<Value> =
        [("user", 4), ("agent", 6), ("user", 9), ("agent", 11), ("user", 14), ("agent", 16)]
            .iter()
            .enumerate()
            .map(|(index, (role, seq))| {
                let mut content =
                    json!({"type": "text", "text": format!("text {}", index / 2 + 1)});
                if *role == "agent" {
                    content["partial"] = json!(false);
                }
                json!({
                    "id": "ID",
                    "sessionId": "SESSION",
                    "turnId": "ID",
                    "seq": seq,
                    "role": role,
                    "content": content,
                    "timestamp": "TIME",
                })
            })
            .collect();
    assert_eq!(redact(&json!(messages), &[(&session, "SESSION")]), json!(expected));
    assert_eq!(turns[0], turns[1]);
    assert_ne!(turns[1], turns[2]);
}

#[tokio::test]
async fn messages_are_read_after_before_the_last_and_since() {
    let (_server, api) = start().await;
    let session = three_turns(&api).await;
    let all = read(&api, &session, "").await;
    let since = all[2]["timestamp"].as_str().unwrap();
    let later: Vec<u64> =
        all.iter().filter(|message| message["timestamp"].as_str() > Some(since)).map(seq).collect();

    let queries: Vec<(String, Vec<u64>)> = vec![
        ("?limit=2".into(), vec![4, 6]),
        ("?last=2".into(), vec![14, 16]),
        ("?last=200".into(), vec![4, 6, 9, 11, 14, 16]),
        ("?after=6".into(), vec![9, 11, 14, 16]),
        ("?after=6&limit=1".into(), vec![9]),
        ("?after=16".into(), vec![]),
        ("?before=11".into(), vec![4, 6, 9]),
        ("?before=11&last=2".into(), vec![6, 9]),
        ("?after=4&before=14".into(), vec![6, 9, 11]),
        (format!("?since={since}"), later),
        ("?since=2001-01-01T00:00:00Z".into(), vec![4, 6, 9, 11, 14, 16]),
        ("?since=2101-01-01T00:00:00.000Z".into(), vec![]),
    ];
    for (query, expected) in queries {
        let found: Vec<u64> = read(&api, &session, &query).await.iter().map(seq).collect();
        assert_eq!(found, expected, "{query}");
    }
}

#[tokio::test]
async fn paging_after_the_last_seq_reads_every_message_once() {
    let (_server, api) = start().await;
    let session = three_turns(&api).await;

    let mut seen = Vec::new();
    let mut after = 0;
    loop {
        let page = read(&api, &session, &format!("?after={after}&limit=1")).await;
        let Some(last) = page.last() else { break };
        after = seq(last);
        seen.extend(page);
    }

    assert_eq!(seen, read(&api, &session, "").await);
}

#[tokio::test]
async fn an_open_message_is_partial_grows_and_keeps_its_id_when_it_is_closed() {
    let (_server, api) = start().await;
    let session = api.create(json!({"agent": "slow"})).await;
    let turn = api.prompt(&session, "work").await;

    let first = eventually("the agent has begun to write", async || {
        let messages = read(&api, &session, "").await;
        messages.into_iter().find(|message| message["role"] == "agent")
    })
    .await;
    let second = eventually("the message has grown", async || {
        let last = read(&api, &session, "?last=1").await.pop()?;
        (text(&last).len() > text(&first).len()).then_some(last)
    })
    .await;
    let path = format!("/api/sessions/{session}/turns/{turn}/cancel");
    api.post(&path, json!({})).await.expect(200);
    let closed = read(&api, &session, "").await;

    assert_eq!(first["content"]["partial"], true);
    assert_eq!((&second["id"], &second["turnId"]), (&first["id"], &first["turnId"]));
    assert!(text(&second).starts_with(text(&first)));
    assert!(seq(&second) > seq(&first));
    let agent: Vec<&Value> = closed.iter().filter(|message| message["role"] == "agent").collect();
    assert_eq!(agent.len(), 1);
    assert_eq!(agent[0]["id"], first["id"]);
    assert_eq!(
        (&agent[0]["content"]["partial"], &agent[0]["content"]["interrupted"]),
        (&json!(false), &json!(true))
    );
    assert!(text(agent[0]).starts_with(text(&second)));
    let error = closed.last().unwrap();
    assert_eq!(
        (&error["role"], &error["content"]),
        (
            &json!("system"),
            &json!({"type": "error", "message": "the turn was cancelled", "code": "cancelled"})
        )
    );
}

#[tokio::test]
async fn a_cancelled_session_says_why_in_its_last_message() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    api.delete(&format!("/api/sessions/{session}?reason=enough")).await.expect(200);

    let messages = read(&api, &session, "").await;

    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["role"], "system");
    assert_eq!(messages[0]["content"], json!({"type": "status", "reason": "enough"}));
}

#[tokio::test]
async fn all_messages_of_a_long_session_are_streamed_without_a_limit() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let path = format!("/api/sessions/{session}/prompt");
    let mut last = String::new();
    for number in 0..120 {
        let body = json!({"text": format!("n{number}"), "onBusy": "enqueue"});
        last = api.post(&path, body).await.expect(202).text("turnId");
    }
    api.finished(&session, &last).await;

    let messages = read(&api, &session, "").await;

    assert_eq!(messages.len(), 240);
    assert!(messages.is_sorted_by_key(seq));
    let said: Vec<&str> =
        messages.iter().filter(|message| message["role"] == "agent").map(text).collect();
    let expected: Vec<String> = (0..120).map(|number| format!("n{number}")).collect();
    assert_eq!(said, expected);
}

#[tokio::test]
async fn a_text_over_64_kilobytes_is_whole_in_messages_and_named_by_url_in_the_log() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let long = "0123456789abcdef".repeat(5000);

    let turn = api.prompt(&session, &long).await;
    api.finished(&session, &turn).await;

    let messages = read(&api, &session, "").await;
    assert_eq!(messages.iter().map(text).collect::<Vec<_>>(), [&long, &long]);
    let log = api.log(&session).await;
    for frame in log.0.iter().filter(|frame| frame.event == "message.completed") {
        let event = frame.json();
        let url = event["data"]["content"]["payloadUrl"].as_str().unwrap();
        assert_eq!(api.get(url).await.expect(200).body, long.as_bytes());
        assert!(frame.data.len() < 1024);
    }
}

async fn three_turns(api: &Api) -> String {
    let session = api.create(json!({})).await;
    for number in 1..=3 {
        let turn = api.prompt(&session, &format!("text {number}")).await;
        api.finished(&session, &turn).await;
    }
    session
}

async fn read(api: &Api, session: &str, query: &str) -> Vec<Value> {
    let reply = api.get(&format!("/api/sessions/{session}/messages{query}")).await.expect(200);
    reply.json().as_array().unwrap().clone()
}

fn seq(message: &Value) -> u64 {
    message["seq"].as_u64().unwrap()
}

fn text(message: &Value) -> &str {
    message["content"]["text"].as_str().unwrap()
}
