use serde_json::{Value, json};

use super::client::{ask, create, open, post, says, streams};
use crate::responses::{Answer, On, ResponsesServer, Script, Status, Wire};

fn in_background(mut request: Value) -> Value {
    request["background"] = json!(true);
    request
}

fn id_of(response: &Value) -> &str {
    response["id"].as_str().unwrap()
}

#[tokio::test]
async fn a_background_response_goes_on_after_the_connection_is_cut() {
    let server = ResponsesServer::start().await;
    let answer = Answer::text("abcdef").chunk_chars(2).hold_before(6, "after the cut");
    server.script(Script::from(answer).and_wire(Wire::CutAfter(6)));

    let cut = create(&server, &in_background(streams("hello"))).await;
    let seen = cut.events();
    let id = id_of(&seen[0]["response"]).to_owned();
    let unfinished = ask(&server, &format!("GET /v1/responses/{id}")).await.json();
    server.gate("after the cut").open();
    let line = format!("GET /v1/responses/{id}?stream=true&starting_after=5");
    let rest = ask(&server, &line).await;

    assert!(!cut.whole);
    assert_eq!(seen[1]["type"], "response.queued");
    assert_eq!(unfinished["status"], "in_progress");
    let all: Vec<_> = seen.into_iter().chain(rest.events()).collect();
    let numbers: Vec<_> = all.iter().map(|event| event["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..12).map(Some).collect::<Vec<_>>());
    let text: String = all.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(text, "abcdef");
    let last = &all[11]["response"];
    assert_eq!(ask(&server, &format!("GET /v1/responses/{id}")).await.json(), *last);
    assert_eq!(server.dispatches().len(), 1);
}

#[tokio::test]
async fn a_resumed_stream_is_live_and_can_be_cut_again() {
    let server = ResponsesServer::start().await;
    let answer = Answer::text("abcdef").chunk_chars(2).hold_before(7, "live");
    server.script(Script::from(answer).and_wire(Wire::CutAfter(1)));
    server.script(Script::wire(Wire::CutAfter(2)).on(On::Retrieve));
    let first = create(&server, &in_background(streams("hello"))).await.events();
    let line = |after: usize| {
        let id = id_of(&first[0]["response"]);
        format!("GET /v1/responses/{id}?stream=true&starting_after={after}")
    };

    let second = ask(&server, &line(0)).await;
    let head = format!("{} HTTP/1.1\r\nauthorization: Bearer {}", line(5), server.key());
    let mut third = open(&server, &head, b"").await.unwrap();
    let before = third.event().await;
    server.gate("live").reached().await;
    server.gate("live").open();
    let live = third.rest().await;

    assert!(!second.whole);
    assert_eq!(second.events().len(), 2);
    assert_eq!(before["delta"], "cd");
    assert_eq!(live.events()[0]["delta"], "ef");
    assert!(live.whole);
}

#[tokio::test]
async fn a_background_response_without_a_stream_is_queued_and_read_later() {
    let server = ResponsesServer::start().await;

    let queued = create(&server, &in_background(says("hello"))).await.json();
    let status = server.wait_until_final(id_of(&queued)).await;
    let line = format!("GET /v1/responses/{}", id_of(&queued));
    let done = ask(&server, &line).await.json();
    let stream = ask(&server, &format!("{line}?stream=true")).await;

    assert_eq!(queued["status"], "queued");
    assert_eq!(status, Some(Status::Completed));
    assert_eq!(done["output"][0]["content"][0]["text"], "turn 1: hello");
    assert_eq!((stream.status, &stream.json()["error"]["param"]), (400, &json!("stream")));
}

#[tokio::test]
async fn cancelling_ends_the_stream_and_is_repeatable() {
    let server = ResponsesServer::start().await;
    server.script(Answer::text("abcdef").hold_before(5, "never"));
    let mut stream = post(&server, &in_background(streams("hello"))).await.unwrap();
    let created = stream.event().await;
    let line = format!("POST /v1/responses/{}/cancel", id_of(&created["response"]));

    let first = ask(&server, &line).await;
    let second = ask(&server, &line).await;
    let rest = stream.rest().await;

    assert_eq!(first.json()["status"], "cancelled");
    assert_eq!(second.json(), first.json());
    assert!(rest.whole);
    assert!(rest.events().iter().all(|event| event["type"] != "response.completed"));
}

#[tokio::test]
async fn only_background_responses_can_be_cancelled_and_only_known_ones_read() {
    let server = ResponsesServer::start().await;
    let made = create(&server, &says("hello")).await.json();

    let cancelled = ask(&server, &format!("POST /v1/responses/{}/cancel", id_of(&made))).await;
    let unknown = ask(&server, "GET /v1/responses/resp_1").await;
    let number =
        ask(&server, &format!("GET /v1/responses/{}?stream=true&starting_after=x", id_of(&made)))
            .await;

    assert_eq!(cancelled.json()["error"]["message"], "Cannot cancel a synchronous response.");
    assert_eq!(
        (unknown.status, unknown.json()),
        (
            404,
            json!({"error": {
                "message": "Response with id 'resp_1' not found.",
                "type": "invalid_request_error",
                "param": null,
                "code": null,
            }})
        )
    );
    assert_eq!(number.json()["error"]["param"], "starting_after");
}

#[tokio::test]
async fn programs_script_open_gates_and_read_the_ledger_over_http() {
    let server = ResponsesServer::start().await;
    let script =
        json!({"answer": {"output": [{"text": "x"}], "holds": [{"before": 2, "gate": "g"}]}});
    let head = "POST /_script HTTP/1.1\r\ncontent-type: application/json";

    let queued = open(&server, head, script.to_string().as_bytes()).await.unwrap().rest().await;
    let request = says("hello");
    let (reply, ()) = tokio::join!(create(&server, &request), async {
        server.gate("g").reached().await;
        assert_eq!(ask(&server, "POST /_gates/g").await.status, 204);
    });
    let ledger = ask(&server, "GET /_ledger").await.json();
    ask(&server, "POST /_forget").await;

    assert_eq!(queued.json(), json!({"queued": 1}));
    let id = id_of(&reply.json()).to_owned();
    assert_eq!(
        ledger["dispatches"],
        json!([{"response_id": id, "metadata": null, "status": "completed"}])
    );
    assert_eq!(ledger["requests"].as_array().map(Vec::len), Some(1));
    assert_eq!(ask(&server, &format!("GET /v1/responses/{id}")).await.status, 404);
}
