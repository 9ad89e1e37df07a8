use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::client::{ask, create, open, says};
use crate::responses::{Chain, Ending, Refusal, ResponsesServer, Script, Settings};

/// Sends a request with one more field, and returns the error.
async fn error_of(server: &ResponsesServer, field: &str, value: Value) -> Value {
    let mut request = says("hello");
    request[field] = value;
    let reply = create(server, &request).await;
    assert_eq!(reply.status, 400, "{field}: {}", reply.text());
    reply.json()["error"].clone()
}

#[tokio::test]
async fn each_wrong_field_is_named() {
    let server = ResponsesServer::start().await;
    let long = "x".repeat(513);
    let pairs: BTreeMap<_, _> = (0..17).map(|number| (format!("k{number}"), "v")).collect();
    let cases = [
        ("colour", json!("red"), "colour", "unknown_parameter"),
        ("model", json!(7), "model", "invalid_type"),
        ("input", json!(7), "input", "invalid_type"),
        ("input", json!([{"type": "letter"}]), "input[0]", "invalid_value"),
        ("input", json!([{"role": "uncle", "content": "a"}]), "input[0].role", "invalid_value"),
        (
            "input",
            json!([{"role": "user", "content": "a", "name": "b"}]),
            "input[0].name",
            "unknown_parameter",
        ),
        (
            "input",
            json!([{"role": "assistant", "content": [{"type": "input_text", "text": "a"}]}]),
            "input[0].content[0].type",
            "invalid_value",
        ),
        (
            "input",
            json!([{"role": "user", "content": [{"type": "output_text", "text": "a"}]}]),
            "input[0].content[0].type",
            "invalid_value",
        ),
        ("temperature", json!("warm"), "temperature", "invalid_type"),
        ("temperature", json!(2.5), "temperature", "decimal_above_max_value"),
        ("max_output_tokens", json!(3), "max_output_tokens", "integer_below_min_value"),
        ("stream", json!("yes"), "stream", "invalid_type"),
        ("metadata", json!({"turn": 7}), "metadata.turn", "invalid_type"),
        ("metadata", json!({"turn": long}), "metadata.turn", "string_above_max_length"),
        ("metadata", json!(pairs), "metadata", "object_above_max_properties"),
        ("tools", json!([{"type": "function"}]), "tools[0].name", "missing_required_parameter"),
        ("tools", json!([{"type": "hammer"}]), "tools[0].type", "invalid_value"),
        ("tool_choice", json!("maybe"), "tool_choice", "invalid_value"),
        ("reasoning", json!({"effort": "huge"}), "reasoning.effort", "invalid_value"),
        ("text", json!({"format": {"type": "rhyme"}}), "text.format.type", "invalid_value"),
        ("include", json!(["everything"]), "include[0]", "invalid_value"),
        ("truncation", json!("never"), "truncation", "invalid_value"),
        ("previous_response_id", json!("resp a"), "previous_response_id", "invalid_value"),
        ("previous_response_id", json!("turn_1"), "previous_response_id", "invalid_value"),
    ];

    for (field, value, param, code) in cases {
        let error = error_of(&server, field, value).await;

        assert_eq!(error["type"], "invalid_request_error");
        assert_eq!((&error["param"], &error["code"]), (&json!(param), &json!(code)), "{error}");
    }
    let stream_options = error_of(&server, "stream_options", json!({})).await;
    assert_eq!(stream_options["param"], "stream_options");
    assert_eq!(server.dispatches(), []);
}

#[tokio::test]
async fn an_unknown_previous_response_is_refused_as_the_api_does_it() {
    let server = ResponsesServer::start().await;
    let expired = create(&server, &says("one")).await.json()["id"].clone();
    let forgotten = create(&server, &says("two")).await.json()["id"].clone();
    let deleted = create(&server, &says("three")).await.json()["id"].clone();
    let mut unstored = says("four");
    unstored["store"] = json!(false);
    let unstored = create(&server, &unstored).await.json()["id"].clone();
    server.expire(expired.as_str().unwrap());
    server.forget(forgotten.as_str().unwrap());
    let line = format!("DELETE /v1/responses/{}", deleted.as_str().unwrap());
    let gone = ask(&server, &line).await;

    for id in [&expired, &forgotten, &deleted, &unstored, &json!("resp_never")] {
        let error = error_of(&server, "previous_response_id", id.clone()).await;

        let id = id.as_str().unwrap();
        assert_eq!(
            error,
            json!({
                "message": format!("Previous response with id '{id}' not found."),
                "type": "invalid_request_error",
                "param": "previous_response_id",
                "code": "previous_response_not_found",
            })
        );
    }

    assert_eq!(gone.json()["deleted"], true);
    let read = |id: &Value| format!("GET /v1/responses/{}", id.as_str().unwrap());
    assert_eq!(ask(&server, &read(&expired)).await.status, 200);
    let missing = ask(&server, &read(&forgotten)).await;
    assert_eq!(missing.status, 404);
    assert_eq!(
        missing.json()["error"]["message"],
        format!("Response with id '{}' not found.", forgotten.as_str().unwrap())
    );
}

#[tokio::test]
async fn a_failed_response_cannot_be_continued() {
    let server = ResponsesServer::start().await;
    let ending = Ending::Failed { code: "server_error".to_owned(), message: "no".to_owned() };
    server.script(crate::responses::Answer::default().ending(ending));
    let failed = create(&server, &says("one")).await.json();

    let error = error_of(&server, "previous_response_id", failed["id"].clone()).await;

    assert_eq!(failed["status"], "failed");
    assert_eq!(error["code"], "previous_response_not_completed");
}

#[tokio::test]
async fn background_needs_a_stored_response() {
    let server = ResponsesServer::start().await;
    let mut request = says("hello");
    request["background"] = json!(true);
    request["store"] = json!(false);

    let reply = create(&server, &request).await;

    assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &json!("background")));
}

#[tokio::test]
async fn a_request_needs_the_key_and_json() {
    let server = ResponsesServer::start().await;
    let key = server.key().to_owned();
    let body = says("hello").to_string();
    let send = async |headers: &str, body: &str| {
        let head = format!("POST /v1/responses HTTP/1.1{headers}");
        open(&server, &head, body.as_bytes()).await.unwrap().rest().await
    };

    let none = send("\r\ncontent-type: application/json", &body).await;
    let wrong =
        send("\r\nauthorization: Bearer sk-wrong-4321\r\ncontent-type: application/json", &body)
            .await;
    let text =
        send(&format!("\r\nauthorization: Bearer {key}\r\ncontent-type: text/plain"), &body).await;
    let broken = send(
        &format!("\r\nauthorization: Bearer {key}\r\ncontent-type: application/json"),
        "{\"model\": ",
    )
    .await;

    assert_eq!(none.status, 401);
    assert_eq!(wrong.status, 401);
    assert_eq!(
        wrong.json()["error"],
        json!({
            "message": "Incorrect API key provided: ****4321.",
            "type": "invalid_request_error",
            "param": null,
            "code": "invalid_api_key",
        })
    );
    assert_eq!(text.json()["error"]["code"], "unsupported_content_type");
    assert_eq!(broken.status, 400);
    assert_eq!(server.dispatches(), []);
}

#[tokio::test]
async fn the_ledger_has_every_request_as_it_came_but_not_the_key() {
    let server = ResponsesServer::start().await;
    let mut request = says("hello");
    request["metadata"] = json!({"turn": "t1"});
    server.script(Refusal::status(429).retry_after("0"));

    create(&server, &request).await;
    create(&server, &request).await;
    ask(&server, "GET /v1/nothing?a=b").await;

    let requests = server.wait_for_requests(3).await;
    assert_eq!(requests[0].body, request.to_string());
    assert_eq!(requests[0].json, Some(request));
    assert_eq!(requests[0].headers["authorization"], "Bearer [redacted]");
    let seen: Vec<_> =
        requests.iter().map(|request| (request.path.as_str(), request.status)).collect();
    assert_eq!(
        seen,
        [("/v1/responses", Some(429)), ("/v1/responses", Some(200)), ("/v1/nothing", Some(404)),]
    );
    assert_eq!(requests[2].query.as_deref(), Some("a=b"));
    assert_eq!(server.dispatches_by("turn"), BTreeMap::from([("t1".to_owned(), 1)]));
}

#[tokio::test]
async fn scripted_refusals_come_as_often_as_they_are_wanted_and_then_end() {
    let server = ResponsesServer::start().await;
    server.script(Script::from(Refusal::status(429).retry_after("7")).times(2));
    server.script(Refusal::status(503).retry_after("1"));
    server.script(Refusal::status(500));
    server.script(Refusal::text(404, "previous_response_not_found, says the proxy"));
    server.script(Script::redirect("http://192.0.2.1/v1/responses"));

    let mut seen = Vec::new();
    for _ in 0..7 {
        seen.push(create(&server, &says("hello")).await);
    }

    let statuses: Vec<_> = seen.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses, [429, 429, 503, 500, 404, 302, 200]);
    assert!(seen[0].head.contains("retry-after: 7\r\n"));
    assert_eq!(seen[0].json()["error"]["code"], "rate_limit_exceeded");
    assert_eq!(seen[4].text(), "previous_response_not_found, says the proxy");
    assert!(seen[5].head.contains("location: http://192.0.2.1/v1/responses\r\n"));
    assert_eq!(server.dispatches().len(), 1);
}

#[tokio::test]
async fn a_server_without_memory_can_refuse_chains_and_has_no_background() {
    let settings = Settings { chain: Chain::NoneRejecting, ..Settings::default() };
    let server = ResponsesServer::start_with(settings).await.unwrap();

    let chain = error_of(&server, "previous_response_id", json!("resp_1")).await;
    let background = error_of(&server, "background", json!(true)).await;

    assert_eq!(chain["param"], "previous_response_id");
    assert_eq!(background["param"], "background");
}
