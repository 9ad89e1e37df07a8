//! Turns that are run again, stopped, queued, and looked at byte by byte.

use serde_json::{Value, json};
use skein_core::model::Sha256Hash;
use skein_testkit::responses::{Answer, Refusal, Status};

use crate::{
    common::http_client,
    desk::{Desk, file, turn_path},
};

#[tokio::test]
async fn a_turn_is_run_again_on_the_chain_as_it_is_now() {
    let desk = Desk::new().await;
    desk.provider.script(Refusal::status(500));
    let failed = desk.ask(&Value::Null, "one").await;
    let session = failed["sessionId"].as_str().unwrap();
    let second = desk.ask(&failed["sessionId"], "two").await;
    let before = desk.turn_of(&failed).await;

    let path = format!("{}/rerun", turn_path(&failed));
    let same = desk.api.post(&path, json!({})).await.expect(202).text("turnId");
    let same = desk.api.finished(session, &same).await;
    let changes = json!({"instruction": "other", "activeFiles": [file("a", "x")]});
    let other = desk.api.post(&path, changes).await.expect(202).text("turnId");
    let other = desk.api.finished(session, &other).await;

    assert_eq!(same["agentAnswerSummary"], "turn 2: one");
    assert_eq!(other["agentAnswerSummary"], "turn 3: other");
    assert_eq!((&same["rerunOf"], &other["rerunOf"]), (&failed["turnId"], &failed["turnId"]));
    let chained_from = desk.turn_of(&second).await["openAIResponseId"].clone();
    assert_eq!(same["previousOpenAIResponseId"], chained_from);
    assert_eq!(other["activeFileRefs"][0]["wasSentToLLM"], true);
    assert_eq!(desk.turn_of(&failed).await, before, "what is finished stays as it is");
}

#[tokio::test]
async fn a_turn_that_is_cancelled_stops_its_model() {
    for (settings, cancels) in [("", 0), ("background = \"on\"", 1)] {
        let desk = Desk::with(settings).await;
        desk.provider
            .script(Answer::text("one two three four").chunk_chars(4).hold_before(7, "middle"));
        let session = desk.api.create(json!({})).await;
        let turn = desk.api.prompt(&session, "count").await;
        desk.provider.gate("middle").reached().await;
        let response = desk.provider.dispatches()[0].response_id.clone();

        let path = format!("/api/sessions/{session}/turns/{turn}/cancel");
        let ended = desk.api.post(&path, json!({})).await.expect(200).json();
        let again = desk.api.post(&path, json!({})).await;

        assert_eq!(ended["errorCode"], "cancelled", "{ended}");
        assert_eq!(again.refusal(), (409, "turn_already_finished".to_owned()));
        assert_eq!(desk.provider.wait_until_final(&response).await, Some(Status::Cancelled));
        let calls = desk.provider.requests();
        let called = calls.iter().filter(|call| call.path.ends_with(&format!("{response}/cancel")));
        assert_eq!(called.count(), cancels, "{settings}");
        let next = desk.ask(&json!(session), "and on").await;
        assert_eq!(next["text"], "turn 1: and on", "a cancelled turn is not chained from");
    }
}

#[tokio::test]
async fn turns_wait_for_each_other_and_go_on_from_each_other() {
    let desk = Desk::new().await;
    desk.provider.script(Answer::default().hold_before(1, "first"));
    let session = desk.api.create(json!({})).await;
    let first = desk.api.prompt(&session, "one").await;
    desk.provider.gate("first").reached().await;

    let busy = desk.execute(json!({"sessionId": session, "instruction": "now"})).await;
    let second = desk.api.enqueue(&session, "two").await;
    let waiting = json!({"sessionId": session, "instruction": "three", "onBusy": "enqueue"});
    let third = desk.execute(waiting);
    let (third, ()) = tokio::join!(third, async {
        desk.provider.gate("first").open();
    });

    assert_eq!(busy.refusal(), (409, "turn_in_progress".to_owned()));
    assert_eq!(third.expect(200).json()["text"], "turn 3: three");
    let summary =
        async |turn: &str| desk.api.turn(&session, turn).await["agentAnswerSummary"].clone();
    assert_eq!(summary(&first).await, "turn 1: one");
    assert_eq!(summary(&second).await, "turn 2: two");
    assert_eq!(desk.sent().len(), 3);
}

#[tokio::test]
async fn the_exact_bytes_of_request_and_response_are_behind_their_urls() {
    let desk = Desk::with("background = \"on\"").await;
    desk.provider.script(
        Answer::text("aé😀 \"quoted\"\n").chunk_chars(2).unknown_event_before(4, "response.new"),
    );

    let answer = desk.ask(&Value::Null, "hello").await;

    let turn = desk.turn_of(&answer).await;
    let payload = async |member: &str| {
        let reply = desk.api.get(turn[member].as_str().unwrap()).await.expect(200);
        let etag = format!("\"{}\"", Sha256Hash::of(&reply.body));
        assert_eq!(reply.header("etag"), Some(etag.as_str()));
        (reply.header("content-type").unwrap().to_owned(), reply.body)
    };
    let (kind, request) = payload("openAIRequestPayloadUrl").await;
    assert_eq!(kind, "application/json");
    assert_eq!(request, desk.provider.requests()[0].body);
    // Streamed once more by the provider itself, which keeps responses in the background.
    let response = turn["openAIResponseId"].as_str().unwrap();
    let url = format!("{}/responses/{response}?stream=true", desk.provider.base_url());
    let streamed = http_client().get(url).bearer_auth(desk.provider.key()).send().await.unwrap();
    let streamed = streamed.bytes().await.unwrap();
    let (kind, kept) = payload("openAIResponsePayloadUrl").await;
    assert_eq!(kind, "text/event-stream");
    assert_eq!(kept, streamed);
    assert_eq!(answer["text"], "aé😀 \"quoted\"\n");
}

#[tokio::test]
async fn the_raw_body_of_a_refusal_is_kept_too() {
    let desk = Desk::new().await;
    desk.provider.script(Refusal::text(418, "I am a teapot"));

    let failed = desk.ask(&Value::Null, "coffee").await;

    let turn = desk.turn_of(&failed).await;
    let kept = desk.api.get(turn["openAIResponsePayloadUrl"].as_str().unwrap()).await.expect(200);
    assert_eq!(kept.body, "I am a teapot");
    assert_eq!(turn["fullAgentAnswerUrl"], Value::Null);
}
