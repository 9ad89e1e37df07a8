use serde_json::{Value, json};

use super::client::{answer, create, says, streams};
use crate::responses::{Answer, Ending, ResponsesServer};

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_conversation_is_kept_by_its_chain() {
    let server = ResponsesServer::start().await;

    let first = create(&server, &says("one")).await.json();
    let mut request = says("two");
    request["previous_response_id"] = first["id"].clone();
    let second = create(&server, &request).await.json();
    request = says("three");
    request["previous_response_id"] = second["id"].clone();
    let third = create(&server, &request).await.json();

    assert_eq!(answer(&first), "turn 1: one");
    assert_eq!(answer(&second), "turn 2: two");
    assert_eq!(answer(&third), "turn 3: three");
    assert_eq!(third["previous_response_id"], second["id"]);
    let context = server.context_of(third["id"].as_str().unwrap()).unwrap();
    assert_eq!(context.len(), 5);
    assert_eq!(context[1]["content"][0]["text"], "turn 1: one");
}

#[tokio::test]
async fn a_chain_can_branch() {
    let server = ResponsesServer::start().await;
    let first = create(&server, &says("trunk")).await.json();

    let mut request = says("left");
    request["previous_response_id"] = first["id"].clone();
    let left = create(&server, &request).await.json();
    request["input"] = json!("right");
    let right = create(&server, &request).await.json();

    assert_eq!(answer(&left), "turn 2: left");
    assert_eq!(answer(&right), "turn 2: right");
    assert_eq!(server.context_of(right["id"].as_str().unwrap()).unwrap().len(), 3);
}

#[tokio::test]
async fn history_in_the_input_counts_like_history_in_the_chain() {
    let server = ResponsesServer::start().await;
    let request = json!({"model": "test-model", "input": [
        {"role": "user", "content": "one"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "1"}]},
        {"role": "user", "content": [
            {"type": "input_text", "text": "a file"},
            {"type": "input_text", "text": "two"},
        ]},
    ]});

    let response = create(&server, &request).await.json();

    assert_eq!(answer(&response), "turn 2: two");
}

#[tokio::test]
async fn a_stream_has_every_event_once_with_numbers_without_gaps() {
    let server = ResponsesServer::start().await;
    server.script(Answer::text("wörds go here").chunk_chars(6));

    let reply = create(&server, &streams("hello")).await;

    assert_eq!(reply.status, 200);
    assert!(reply.whole);
    assert!(reply.head.contains("content-type: text/event-stream; charset=utf-8"));
    let events = reply.events();
    assert_eq!(
        types(&events),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..11).map(Some).collect::<Vec<_>>());
    let text: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(text, "wörds go here");
    assert_eq!(events[10]["response"]["output"][0]["content"][0]["text"], "wörds go here");
    assert_eq!(events[0]["response"]["usage"], Value::Null);
    assert_eq!(
        events[10]["response"]["usage"],
        json!({
            "input_tokens": 2,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 4,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 6,
        })
    );
}

#[tokio::test]
async fn deltas_are_padded_unless_the_request_says_no() {
    let server = ResponsesServer::start().await;
    let mut request = streams("hello");

    let padded = create(&server, &request).await.events();
    request["stream_options"] = json!({"include_obfuscation": false});
    let plain = create(&server, &request).await.events();

    assert!(padded[4]["obfuscation"].is_string());
    assert!(plain[4].get("obfuscation").is_none());
}

#[tokio::test]
async fn reasoning_text_and_a_tool_call_come_in_their_order() {
    let server = ResponsesServer::start().await;
    let arguments = r#"{"files":[]}"#;
    server.script(
        Answer::reasoning("thinking")
            .and_text("done")
            .and_tool_call("propose_files", arguments)
            .chunk_chars(100),
    );

    let events = create(&server, &streams("edit")).await.events();

    assert_eq!(
        types(&events)[2..],
        [
            "response.output_item.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let output = &events.last().unwrap()["response"]["output"];
    assert_eq!(output[0]["summary"][0]["text"], "thinking");
    assert_eq!(output[2]["name"], "propose_files");
    assert_eq!(output[2]["arguments"], arguments);
}

#[tokio::test]
async fn a_tool_call_wants_its_output_before_the_chain_goes_on() {
    let server = ResponsesServer::start().await;
    server.script(Answer::tool_call("propose_files", "{broken"));
    let first = create(&server, &says("edit")).await.json();
    let call_id = first["output"][0]["call_id"].as_str().unwrap();
    let mut request = says("go on");
    request["previous_response_id"] = first["id"].clone();

    let without = create(&server, &request).await;
    request["input"] = json!([
        {"type": "function_call_output", "call_id": call_id, "output": "written"},
        {"role": "user", "content": "go on"},
    ]);
    let with = create(&server, &request).await;
    request["previous_response_id"] = Value::Null;
    let orphan = create(&server, &request).await;

    assert_eq!(without.status, 400);
    assert_eq!(
        without.json()["error"]["message"],
        format!("No tool output found for function call {call_id}.")
    );
    assert_eq!(answer(&with.json()), "turn 2: go on");
    assert_eq!(
        orphan.json()["error"]["message"],
        format!("No tool call found for function call output with call_id {call_id}.")
    );
}

#[tokio::test]
async fn a_response_can_fail_be_incomplete_or_end_in_an_error_event() {
    let server = ResponsesServer::start().await;
    let (code, message) = ("server_error".to_owned(), "it broke".to_owned());
    server.script(Answer::text("a").ending(Ending::Incomplete("max_output_tokens".to_owned())));
    server.script(
        Answer::default().ending(Ending::Failed { code: code.clone(), message: message.clone() }),
    );
    server.script(Answer::text("a").ending(Ending::Error { code, message }));

    let incomplete = create(&server, &streams("1")).await.events().pop().unwrap();
    let failed = create(&server, &streams("2")).await.events();
    let error = create(&server, &streams("3")).await.events().pop().unwrap();

    assert_eq!(incomplete["type"], "response.incomplete");
    assert_eq!(
        incomplete["response"]["incomplete_details"],
        json!({"reason": "max_output_tokens"})
    );
    assert_eq!(types(&failed), ["response.created", "response.in_progress", "response.failed"]);
    assert_eq!(
        failed[2]["response"]["error"],
        json!({"code": "server_error", "message": "it broke"})
    );
    assert_eq!(error["type"], "error");
    assert_eq!(error["message"], "it broke");
}

#[tokio::test]
async fn a_huge_answer_is_whole() {
    let server = ResponsesServer::start().await;
    server.script(Answer::filler(2_000_000));

    let reply = create(&server, &streams("long")).await;

    let text: String = reply.events().iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(text.len(), 2_000_000);
    assert!(reply.whole);
}

#[tokio::test]
async fn unknown_events_are_numbered_and_malformed_ones_are_sent_as_they_are() {
    let server = ResponsesServer::start().await;
    let answer = Answer::text("text").unknown_event_before(4, "response.made_up");
    server.script(answer.clone());
    server.script(answer.malformed_event_before(4));

    let events = create(&server, &streams("one")).await.events();
    let malformed = create(&server, &streams("two")).await.text();

    assert_eq!(events[4]["type"], "response.made_up");
    let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..10).map(Some).collect::<Vec<_>>());
    assert!(malformed.contains("data: {\"delta\": \n\n"));
}

#[tokio::test]
async fn a_script_waits_for_the_instruction_that_it_is_for() {
    let server = ResponsesServer::start().await;
    server
        .load(json!([
            {"when": "weather", "times": 2, "answer": {"output": [{"text": "rain"}]}},
            {"always": true, "answer": {"output": ["default", {"tool_call": {"name": "f", "arguments": {"a": 1}}}]}},
        ]))
        .unwrap();

    let other = create(&server, &says("hello")).await.json();
    let first = create(&server, &says("the weather")).await.json();
    let second = create(&server, &says("weather?")).await.json();
    let third = create(&server, &says("weather")).await.json();

    assert_eq!(answer(&other), "turn 1: hello");
    assert_eq!(other["output"][1]["arguments"], r#"{"a":1}"#);
    assert_eq!(answer(&first), "rain");
    assert_eq!(answer(&second), "rain");
    assert_eq!(answer(&third), "turn 1: weather");
    assert_eq!(server.scripts_left(), 0);
}

#[tokio::test]
async fn a_server_without_memory_sees_only_the_input() {
    let server = ResponsesServer::without_memory().await;
    let request = json!({
        "model": "test-model",
        "previous_response_id": "resp_of_nobody",
        "input": [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "1"},
            {"role": "user", "content": "two"},
        ],
    });

    let response = create(&server, &request).await.json();
    let line = format!("GET /v1/responses/{}", response["id"].as_str().unwrap());
    let read = super::client::ask(&server, &line).await;

    assert_eq!(answer(&response), "turn 2 (2 items before): two");
    assert_eq!(read.status, 404);
}

#[tokio::test]
async fn a_line_of_a_script_with_a_mistake_is_refused() {
    let server = ResponsesServer::start().await;

    let unknown = server.load(json!({"anwser": {}}));
    let output = server.load(json!({"answer": {"output": [{"txt": "a"}]}}));

    assert!(unknown.is_err());
    assert!(output.is_err());
}
