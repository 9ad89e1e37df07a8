//! What an answer looks like, as JSON and as a stream.

use reqwest::Method;
use serde_json::{Value, json};
use skein_testkit::responses::Answer;

use crate::{
    desk::{Desk, EXECUTE, file},
    harness::{EventStream, Reply},
};

#[tokio::test]
async fn an_answer_is_whole() {
    let desk = Desk::new().await;

    let answer = desk.ask(&Value::Null, "hello").await;

    let turn = desk.turn_of(&answer).await;
    assert_eq!(
        answer,
        json!({
            "kind": "answer",
            "sessionId": answer["sessionId"],
            "turnId": turn["id"],
            "conversationId": answer["sessionId"],
            "text": "turn 1: hello",
            "sources": [],
            "fileBundle": null,
            "warnings": [],
            "errorCode": null,
            "errorMessage": null,
            "usage": {"inputTokens": 2, "outputTokens": 4},
            "context": {"bytesSent": 5, "bytesSaved": 0, "chain": "start"},
        })
    );
    assert_eq!(turn["usage"], answer["usage"]);
    assert_eq!(turn["openAIModel"], "m-config");
    assert_eq!(turn["openAIResponseId"], desk.provider.dispatches()[0].response_id);
    assert_eq!(turn["statusTimeStamp"], turn["openAIResponseReceivedDate"]);
    assert!(turn["openAIChainExpiresDate"].is_string(), "{turn}");
    let session = format!("/api/sessions/{}", answer["sessionId"].as_str().unwrap());
    let session = desk.api.get(&session).await.expect(200).json();
    assert_eq!(session["chainExpiresDate"], turn["openAIChainExpiresDate"]);
    let listed = desk.api.get("/api/sessions").await.expect(200).json();
    assert_eq!(listed["sessions"][0]["chainExpiresDate"], turn["openAIChainExpiresDate"]);
}

#[tokio::test]
async fn a_stream_ends_with_the_answer_that_json_would_have_been() {
    let desk = Desk::new().await;
    desk.provider.script(Answer::reasoning("I wonder").and_text("so it is").chunk_chars(3));
    let body = json!({"instruction": "why?"});

    let mut stream = EventStream::open(desk.api.keyed(EXECUTE, "k", &body)).await;
    let frames = stream.rest().await;
    let replayed = Reply::to(desk.api.keyed(EXECUTE, "k", &body)).await.expect(200);

    let done = frames.0.last().unwrap();
    assert_eq!((done.event.as_str(), done.id), ("done", None));
    assert_eq!(done.json(), replayed.json());
    assert_eq!(replayed.header("idempotency-replayed"), Some("true"));
    let mut types = frames.types();
    types.dedup();
    assert_eq!(
        types[..4],
        ["turn.created", "message.completed", "turn.started", "context.planned"]
    );
    assert_eq!(types[types.len() - 3..], ["usage.recorded", "turn.completed", "done"]);
    assert!(types.contains(&"thought.delta") && types.contains(&"message.completed"), "{types:?}");
    assert_eq!(desk.sent().len(), 1);
}

#[tokio::test]
async fn a_replayed_turn_gives_the_same_answer_without_asking_the_model_again() {
    let desk = Desk::new().await;
    let proposal = r#"{"files":[{"path":"a.rs","action":"update","content":"fn b() {}\n"}]}"#;
    desk.provider.script(Answer::text("Here.").and_tool_call("propose_files", proposal));
    let body = json!({
        "instruction": "rename it", "mode": "edit", "activeFiles": [file("a.rs", "fn a() {}\n")],
    });

    let first = Reply::to(desk.api.keyed(EXECUTE, "k", &body)).await.expect(200);
    let again = Reply::to(desk.api.keyed(EXECUTE, "k", &body)).await.expect(200);

    assert_eq!(first.json(), again.json());
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(first.json()["fileBundle"]["files"].as_array().unwrap().len(), 1);
    assert_eq!(desk.provider.requests().len(), 1);
}

#[tokio::test]
async fn files_that_the_model_proposes_come_with_the_answer() {
    let desk = Desk::new().await;
    let proposal = r#"{"files":[
        {"path":"src/a.rs","action":"update","content":"fn b() {}\n"},
        {"path":"new.rs","action":"create","content":"new\n"},
        {"path":"old.rs","action":"delete","content":null}]}"#;
    desk.provider.script(Answer::text("Done.").and_tool_call("propose_files", proposal));
    let files = [file("src/a.rs", "fn a() {}\n"), file("old.rs", "old\n")];

    let body = json!({"instruction": "change it", "mode": "edit", "activeFiles": files});
    let answer = desk.execute(body).await.expect(200).json();
    let next = desk.ask(&answer["sessionId"], "thanks").await;

    assert_eq!((&answer["kind"], &answer["text"]), (&json!("answer"), &json!("Done.")));
    let files = answer["fileBundle"]["files"].as_array().unwrap();
    let shown = |file: &Value| (file["path"].clone(), file["action"].clone());
    let expected = [("src/a.rs", "update"), ("new.rs", "create"), ("old.rs", "delete")];
    let expected = expected.map(|(path, action)| (json!(path), json!(action)));
    assert_eq!(files.iter().map(shown).collect::<Vec<_>>(), expected);
    let hash = skein_core::model::Sha256Hash::of(b"fn a() {}\n").to_string();
    assert_eq!((&files[0]["baseHash"], &files[1]["baseHash"]), (&json!(hash), &Value::Null));
    let diff = "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1 +1 @@\n-fn a() {}\n+fn b() {}\n";
    assert_eq!((&files[0]["content"], &files[0]["diff"]), (&json!("fn b() {}\n"), &json!(diff)));
    assert_eq!((&answer["warnings"], &next["warnings"]), (&json!([]), &json!([])));
    // The provider takes no further turn before its call has an output.
    assert_eq!(desk.sent()[1]["input"][0]["type"], "function_call_output");
}

#[tokio::test]
async fn an_answer_of_two_megabytes_is_whole_everywhere() {
    let desk = Desk::new().await;
    desk.provider.script(Answer::filler(2_000_000));

    let answer = desk.ask(&Value::Null, "tell me everything").await;

    let text = answer["text"].as_str().unwrap();
    assert_eq!(text.len(), 2_000_000);
    let turn = desk.turn_of(&answer).await;
    let kept = desk.api.get(turn["fullAgentAnswerUrl"].as_str().unwrap()).await.expect(200);
    assert!(kept.body == text.as_bytes());
    let log = desk.api.log(answer["sessionId"].as_str().unwrap()).await;
    let deltas = log.json().into_iter().filter(|event| event["type"] == "message.delta");
    let said: String =
        deltas.map(|event| event["data"]["text"].as_str().unwrap().to_owned()).collect();
    assert!(said == text, "the deltas are not the answer");
    let closed = log
        .json()
        .into_iter()
        .find(|event| event["type"] == "message.completed" && event["data"]["role"] == "agent");
    let url = closed.unwrap()["data"]["content"]["payloadUrl"].as_str().unwrap().to_owned();
    assert!(desk.api.get(&url).await.expect(200).body == text.as_bytes());
    let messages = format!("/api/sessions/{}/messages", answer["sessionId"].as_str().unwrap());
    let messages = Reply::to(desk.api.request(Method::GET, &messages)).await.expect(200).json();
    assert_eq!(messages.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_long_answer_of_several_messages_is_one_text() {
    let desk = Desk::new().await;
    let [first, second, third] = [700_000, 300_000, 7].map(|chars| "é\"".repeat(chars / 2));
    let answer = Answer::text(&first).and_tool_call("look", "{}").and_text(&second);
    desk.provider.script(answer.and_tool_call("look_again", "{}").and_text(&third));
    let body = json!({"instruction": "tell me everything"});

    let mut stream = EventStream::open(desk.api.keyed(EXECUTE, "k", &body)).await;
    let done = stream.rest().await.0.last().unwrap().json();
    let replayed = Reply::to(desk.api.keyed(EXECUTE, "k", &body)).await.expect(200).json();

    let whole = format!("{first}\n\n{second}\n\n{third}");
    assert!(done["text"] == whole, "the stream's answer is not whole");
    assert!(replayed == done, "the replayed answer is another one");
    let turn = desk.turn_of(&done).await;
    let kept = desk.api.get(turn["fullAgentAnswerUrl"].as_str().unwrap()).await.expect(200);
    assert!(kept.body == whole.as_bytes(), "the stored answer is not whole");
    let summary: String = whole.chars().take(1024).collect();
    assert_eq!(turn["agentAnswerSummary"], summary);
}

#[tokio::test]
async fn the_raw_response_of_a_long_answer_is_kept_byte_by_byte() {
    let desk = Desk::new().await;
    desk.provider.script(Answer::filler(400_000));

    let answer = desk.ask(&Value::Null, "tell me everything").await;

    let turn = desk.turn_of(&answer).await;
    let raw = desk.api.get(turn["openAIResponsePayloadUrl"].as_str().unwrap()).await.expect(200);
    let raw = String::from_utf8(raw.body.to_vec()).unwrap();
    let events: Vec<Value> = raw
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    let deltas = of("response.output_text.delta");
    let said: String = deltas.iter().map(|event| event["delta"].as_str().unwrap()).collect();
    assert!(answer["text"] == said);
    // What is not read is kept all the same.
    assert!(of("response.output_text.done")[0]["text"] == said);
    let output = &of("response.completed")[0]["response"]["output"];
    assert!(output[0]["content"][0]["text"] == said);
}
