//! Execute: one request, one whole answer, as JSON or as a stream.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::{
    harness::{Api, EventStream},
    redact::redact,
    start,
};

const EXECUTE: &str = "/api/ai/agent/execute";

#[tokio::test]
async fn execute_answers_whole_and_makes_a_session_when_none_is_named() {
    let (_server, api) = start().await;

    let executed = api.post(EXECUTE, json!({"instruction": "hello"})).await.expect(200);

    let (session, turn) = (executed.text("sessionId"), executed.text("turnId"));
    let names = [(session.as_str(), "SESSION"), (turn.as_str(), "TURN")];
    assert_eq!(redact(&executed.json(), &names), answer("hello"));
    let stored = api.get(&format!("/api/sessions/{session}?include=")).await.expect(200).json();
    assert_eq!(
        (&stored["state"], &stored["turnCount"], &stored["interface"]),
        (&json!("active"), &json!(1), &json!("web"))
    );
}

#[tokio::test]
async fn execute_continues_a_session_and_takes_every_field_in_every_shape() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    for (number, client) in ["browser", "cli", "thick"].into_iter().enumerate() {
        let body = json!({
            "client": client,
            "sessionId": session,
            "instruction": format!("hello {client}"),
            "mode": "edit",
            "workspaceId": "laptop",
            "repo": "web",
            "scope": {"paths": ["src/**"]},
            "language": "de",
            "activeFiles": [{
                "path": "src/a.rs",
                "content": "fn a() {}",
                "sizeBytes": 9,
                "isTouched": true,
                "isOpen": true,
                "isNamed": false,
            }],
            "onBusy": "reject",
        });

        let executed = api.post(EXECUTE, body).await.expect(200).json();

        assert_eq!(executed["sessionId"], session);
        assert_eq!(executed["text"], format!("hello {client}"));
        let turn = api.turn(&session, executed["turnId"].as_str().unwrap()).await;
        assert_eq!(
            (
                &turn["sequenceNumber"],
                &turn["mode"],
                &turn["workspaceId"],
                &turn["repo"],
                &turn["language"]
            ),
            (&json!(number + 1), &json!("edit"), &json!("laptop"), &json!("web"), &json!("de"))
        );
    }
}

#[tokio::test]
async fn execute_as_a_stream_is_the_events_of_the_turn_and_ends_with_the_whole_answer() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let body = json!({"sessionId": session, "instruction": "hello"});

    let request = api.request(Method::POST, EXECUTE).json(&body);
    let seen = EventStream::open(request).await.rest().await;

    let log = api.log(&session).await;
    let done = seen.0.last().unwrap();
    assert_eq!((done.event.as_str(), done.id), ("done", None));
    let turn = done.json()["turnId"].as_str().unwrap().to_owned();
    assert_eq!(redact(&done.json(), &[(&session, "SESSION"), (&turn, "TURN")]), answer("hello"));
    let streamed: String =
        seen.0.iter().filter(|frame| frame.id.is_some()).map(|frame| frame.raw.as_str()).collect();
    let of_turn: String = log
        .0
        .iter()
        .filter(|frame| frame.json()["turnId"] == turn)
        .map(|frame| frame.raw.as_str())
        .collect();
    assert_eq!(streamed, of_turn);
    assert_eq!(
        seen.types(),
        [
            "turn.created",
            "message.completed",
            "turn.started",
            "message.completed",
            "turn.completed",
            "done"
        ]
    );
}

#[tokio::test]
async fn a_disconnected_caller_does_not_cancel_the_turn() {
    let (_server, api) = start().await;
    let session = api.create(json!({"agent": "slow"})).await;
    let body = json!({"sessionId": session, "instruction": "work"});
    let request = api.request(Method::POST, EXECUTE).json(&body);
    let mut stream = EventStream::open(request).await;
    let seen = stream.until(|frame| frame.event == "message.delta").await;
    let turn = seen.json()[0]["turnId"].as_str().unwrap().to_owned();
    let position = seen.ids().last().copied().unwrap();

    drop(stream);

    let mut later = api.follow(&session, position).await;
    later.until(|frame| frame.event == "message.delta").await;
    assert_eq!(api.turn(&session, &turn).await["status"]["key"], "pending");
}

#[tokio::test]
async fn contexts_named_with_a_session_apply_from_that_turn_on_and_unknown_ones_are_refused() {
    let (_server, api) = start().await;
    let session = api.create(json!({"agent": "echo"})).await;
    let unknown = "01890a5d-ac96-774b-bcce-b302099a8057";

    for (field, value) in
        [("agent", "nobody"), ("agentContextId", unknown), ("conversationContextId", unknown)]
    {
        let body = json!({"sessionId": session, "instruction": "hi", field: value});
        let refused = api.post(EXECUTE, body).await;
        assert_eq!(refused.refusal(), (422, "unknown_reference".to_owned()), "{field}");
    }
    let body = json!({"sessionId": session, "instruction": "hi", "repoId": unknown});
    assert_eq!(api.post(EXECUTE, body).await.refusal(), (400, "invalid_request".to_owned()));
    let other = json!({"sessionId": session, "instruction": "hi", "agent": "plain"});
    api.post(EXECUTE, other).await.expect(200);

    let stored = api.get(&format!("/api/sessions/{session}?include=")).await.expect(200).json();
    assert_eq!((&stored["agentContextName"], &stored["turnCount"]), (&json!("plain"), &json!(1)));
    let log = api.log(&session).await;
    let updates: Vec<_> =
        log.json().into_iter().filter(|event| event["type"] == "session.updated").collect();
    assert_eq!(updates.last().unwrap()["data"]["fields"], json!(["agentContextId"]));
}

#[tokio::test]
async fn whoever_hangs_up_after_asking_for_an_end_gets_the_whole_end() {
    let (_server, api) = start().await;
    for (path, state) in [("complete", "completed"), ("suspend", "suspended")] {
        let session = api.create(json!({"agent": "slow"})).await;
        let running = api.prompt(&session, "work").await;
        api.enqueue(&session, "wait").await;
        let mut stream = api.follow(&session, 0).await;
        stream.until(|frame| frame.event == "message.delta").await;

        let end = format!("/api/sessions/{session}/{path}");
        let asked = send(&api, &end, r#"{"interrupt":true}"#).await;
        stream.until(|frame| frame.event == "turn.failed").await;
        drop(asked);

        stream.until(|frame| frame.event == format!("session.{state}")).await;
        assert_eq!(api.turn(&session, &running).await["errorCode"], "interrupted");
        let stored = api.get(&format!("/api/sessions/{session}?include=")).await.json();
        assert_eq!(stored["state"], state);
    }
}

#[tokio::test]
async fn a_failed_turn_is_an_answer_of_kind_error_not_an_http_error() {
    let (_server, api) = start().await;
    let session = api.create(json!({"agent": "slow"})).await;
    let body = json!({"sessionId": session, "instruction": "work"});
    let waiting = {
        let api = api.clone();
        async move { api.post(EXECUTE, body).await }
    };
    let cancelling = async {
        let turn = crate::harness::eventually("a turn runs", async || {
            let reply = api.get(&format!("/api/sessions/{session}/turns/last")).await;
            (reply.status == 200).then(|| reply.text("id"))
        })
        .await;
        api.post(&format!("/api/sessions/{session}/turns/{turn}/cancel"), json!({}))
            .await
            .expect(200);
        turn
    };

    let (executed, turn) = tokio::join!(waiting, cancelling);

    let body = executed.expect(200).json();
    assert_eq!(
        (&body["kind"], &body["turnId"], &body["text"], &body["errorCode"], &body["errorMessage"]),
        (
            &json!("error"),
            &json!(turn),
            &Value::Null,
            &json!("cancelled"),
            &json!("the turn was cancelled")
        )
    );
}

fn answer(text: &str) -> Value {
    json!({
        "kind": "answer",
        "sessionId": "SESSION",
        "turnId": "TURN",
        "conversationId": "SESSION",
        "text": text,
        "sources": [],
        "fileBundle": null,
        "warnings": [],
        "errorCode": null,
        "errorMessage": null,
        "usage": null,
        "context": {"bytesSent": text.len(), "bytesSaved": 0, "chain": "start"},
    })
}

/// The whole request; nobody takes the reply.
async fn send(api: &Api, path: &str, body: &str) -> TcpStream {
    let address = api.url.strip_prefix("http://").unwrap();
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        api.token,
        body.len()
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}
