//! Conversations over several turns, whoever remembers them.

use serde_json::{Value, json};
use skein_testkit::responses::{ResponsesServer, Status};

use crate::desk::{Desk, file};

fn decision(context: &Value) -> (String, String) {
    let text = |member: &str| context["chain"][member].as_str().unwrap().to_owned();
    (text("decision"), text("reason"))
}

#[tokio::test]
async fn a_provider_that_remembers_is_told_only_what_is_new() {
    let desk = Desk::new().await;

    let first = desk.ask(&Value::Null, "one").await;
    let second = desk.ask(&first["sessionId"], "two").await;
    let third = desk.ask(&first["sessionId"], "three").await;

    let texts = [&first["text"], &second["text"], &third["text"]];
    assert_eq!(texts, ["turn 1: one", "turn 2: two", "turn 3: three"]);
    let sent = desk.sent();
    assert!(sent.iter().all(|body| body["input"].as_array().unwrap().len() == 1), "{sent:?}");
    assert_eq!(sent[0]["previous_response_id"], Value::Null);
    assert_eq!(sent[2]["previous_response_id"], desk.turn_of(&second).await["openAIResponseId"]);
    assert_eq!(
        desk.turn_of(&third).await["previousOpenAIResponseId"],
        sent[2]["previous_response_id"]
    );
    let chain = |answer: &Value| answer["context"]["chain"].clone();
    assert_eq!([chain(&first), chain(&second), chain(&third)], ["start", "continue", "continue"]);
}

#[tokio::test]
async fn a_provider_that_keeps_nothing_is_told_everything() {
    let desk = Desk::on(ResponsesServer::without_memory().await, "chain = \"none\"").await;

    let first = desk.ask(&Value::Null, "one").await;
    let second = desk.ask(&first["sessionId"], "two").await;
    let third = desk.ask(&first["sessionId"], "three").await;

    let texts = [&second["text"], &third["text"]];
    let expected = ["turn 2 (2 items before): two", "turn 3 (4 items before): three"];
    assert_eq!(texts, expected);
    let sent = desk.sent();
    assert!(sent.iter().all(|body| body["previous_response_id"].is_null()), "{sent:?}");
    assert!(sent.iter().all(|body| body["store"] == false), "{sent:?}");
    let context = desk.context_of(&third).await;
    assert_eq!(decision(&context), ("rehydrate".to_owned(), "provider_keeps_nothing".to_owned()));
    assert_eq!(third["warnings"], json!([]));
}

#[tokio::test]
async fn a_lost_chain_costs_one_warning_and_its_manifest_is_shown() {
    let desk = Desk::new().await;
    let body = json!({"instruction": "one", "activeFiles": [file("a.rs", "fn a() {}")]});
    let first = desk.execute(body).await.expect(200).json();
    desk.provider.forget_all();

    let second = desk.ask(&first["sessionId"], "two").await;
    let third = desk.ask(&first["sessionId"], "three").await;

    assert_eq!((&second["text"], &third["text"]), (&json!("turn 2: two"), &json!("turn 3: three")));
    assert_eq!(second["warnings"].as_array().unwrap().len(), 1, "{second}");
    assert_eq!(third["warnings"], json!([]));
    let context = desk.context_of(&second).await;
    assert_eq!(context["chain"]["decision"], "rehydrate");
    assert_eq!(context["rehydrated"]["turns"][0]["turnId"], first["turnId"]);
    assert_eq!(context["rehydrated"]["files"][0]["item"], "a.rs");
    assert!(desk.sent()[1].to_string().contains("fn a() {}"));
    let statuses: Vec<_> = desk.provider.requests().iter().map(|request| request.status).collect();
    assert_eq!(statuses, [Some(200), Some(400), Some(200), Some(200)]);
}

#[tokio::test]
async fn a_conversation_goes_on_after_a_restart() {
    let mut desk = Desk::new().await;
    let first = desk.ask(&Value::Null, "one").await;

    desk.server.restart().await;
    desk.api = crate::harness::Api::of(&desk.server);
    let second = desk.ask(&first["sessionId"], "two").await;

    assert_eq!(second["text"], "turn 2: two");
    assert_eq!(second["context"]["chain"], "continue");
    let response = &desk.provider.dispatches()[1].response_id;
    assert_eq!(desk.provider.status_of(response), Some(Status::Completed));
}
