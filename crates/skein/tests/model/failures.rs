//! A provider that fails makes a failed turn, and the conversation goes on.

use serde_json::{Value, json};
use skein_testkit::responses::{
    Answer, Ending, Extra, ExtraBlock, Refusal, ResponsesServer, Script, Wire,
};

use crate::desk::{Desk, EXECUTE};

/// Asks once with this line of the provider's script, and then once more.
async fn failed(desk: &Desk, script: impl Into<Script>) -> Value {
    desk.provider.script(script);
    let failed = desk.ask(&Value::Null, "fail").await;
    assert_eq!((&failed["kind"], &failed["text"]), (&json!("error"), &Value::Null), "{failed}");
    let turn = desk.turn_of(&failed).await;
    assert_eq!(turn["status"]["key"], "failed");
    assert_eq!(turn["errorCode"], failed["errorCode"]);
    assert_eq!(turn["errors"], json!([failed["errorMessage"]]));
    assert_eq!(turn["statusTimeStamp"], turn["openAIResponseReceivedDate"], "{turn}");
    let next = desk.ask(&failed["sessionId"], "next").await;
    assert_eq!(next["text"], "turn 1: next", "a failed turn is not chained from");
    failed
}

#[tokio::test]
async fn whatever_a_provider_says_instead_of_an_answer_is_a_provider_error() {
    let desk = Desk::new().await;
    let ending = Ending::Failed { code: "server_error".to_owned(), message: "it broke".to_owned() };
    let error = Ending::Error { code: "overloaded".to_owned(), message: "too much".to_owned() };
    let scripts: [(&str, Script); 7] = [
        ("answered 500", Refusal::status(500).into()),
        ("answered 503", Refusal::status(503).into()),
        ("no such model", Refusal::text(404, "no such model").into()),
        ("it broke", Answer::text("half").ending(ending).into()),
        ("too much", Answer::text("half").ending(error).into()),
        ("text/plain", Refusal::text(200, "hello").into()),
        ("redirect", Script::redirect("http://127.0.0.1:9/v1/responses")),
    ];

    for (said, script) in scripts {
        let failed = failed(&desk, script).await;

        assert_eq!(failed["errorCode"], "provider_error", "{failed}");
        assert!(failed["errorMessage"].as_str().unwrap().contains(said), "{said}: {failed}");
    }
    assert_eq!(desk.provider.requests().len(), 2 * 7, "nothing was called twice");
}

#[tokio::test]
async fn a_provider_that_falls_silent_is_a_timeout_and_one_that_is_cut_off_an_interruption() {
    let desk = Desk::with("idle_timeout_seconds = 1").await;
    let scripts = [
        ("provider_timeout", Wire::StallBeforeHeaders),
        ("provider_timeout", Wire::StallAfter(5)),
        ("interrupted", Wire::CloseBeforeHeaders),
        ("interrupted", Wire::CutAfter(5)),
        ("interrupted", Wire::CutInEvent(5)),
        ("interrupted", Wire::EndAfter(5)),
    ];

    for (code, wire) in scripts {
        let failed = failed(&desk, Script::wire(wire)).await;

        assert_eq!(failed["errorCode"], code, "{wire:?}: {failed}");
    }
    assert_eq!(desk.sent().len(), 2 * 6, "nothing was dispatched twice");
}

#[tokio::test]
async fn a_provider_that_is_away_is_a_provider_error() {
    let Desk { provider, server: _server, api } = Desk::new().await;
    provider.stop().await;

    let failed = api.post(EXECUTE, json!({"instruction": "hello"})).await.expect(200).json();

    assert_eq!(failed["errorCode"], "provider_error", "{failed}");
    assert!(failed["errorMessage"].as_str().unwrap().contains("cannot be reached"), "{failed}");
}

#[tokio::test]
async fn a_call_is_repeated_while_the_provider_says_later_and_then_no_more() {
    let desk = Desk::new().await;
    desk.provider.script(Script::from(Refusal::status(429).retry_after("0")).times(2));

    let answer = desk.ask(&Value::Null, "hello").await;

    assert_eq!(answer["text"], "turn 1: hello");
    assert_eq!(desk.provider.requests().len(), 3);
    assert_eq!(desk.sent().len(), 1);

    desk.provider.script(Script::from(Refusal::status(429).retry_after("0")).times(3));
    let failed = desk.ask(&answer["sessionId"], "again").await;
    assert_eq!(
        (&failed["kind"], &failed["errorCode"]),
        (&json!("error"), &json!("provider_error"))
    );
    assert!(failed["errorMessage"].as_str().unwrap().contains("answered 429"), "{failed}");
    assert_eq!(desk.provider.requests().len(), 6);
    assert_eq!(desk.sent().len(), 1, "nothing was dispatched");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let desk = Desk::new().await;
    let elsewhere = ResponsesServer::start().await;
    let target = format!("{}/responses", elsewhere.base_url());

    failed(&desk, Script::redirect(&target)).await;

    assert_eq!(elsewhere.requests().len(), 0);
}

#[tokio::test]
async fn what_no_store_can_keep_does_not_keep_a_turn_from_ending() {
    let desk = Desk::new().await;
    let usage = json!({"input_tokens": u64::MAX, "output_tokens": u64::MAX});
    let data = json!({"response": {"id": "resp_\0", "status": "completed", "usage": usage}});
    let block = ExtraBlock::Event { event: "response.completed".to_owned(), data };
    for _ in 0..3 {
        let extras = vec![Extra { before: 5, block: block.clone() }];
        desk.provider.script(Answer { extras, ..Answer::text("a\0b") });
    }
    let failure = json!({"error": {"message": "a\0b"}}).to_string();
    desk.provider.script(Refusal::text(400, &failure));

    let mut session = Value::Null;
    for _ in 0..3 {
        let answer = desk.ask(&session, "hello").await;
        session = answer["sessionId"].clone();
        assert_eq!((&answer["kind"], &answer["text"]), (&json!("answer"), &json!("a\u{FFFD}b")));
        assert_eq!(answer["usage"]["inputTokens"], 1_u64 << 40);
    }
    let failed = desk.ask(&session, "hello").await;

    assert_eq!(failed["errorCode"], "provider_error");
    assert!(failed["errorMessage"].as_str().unwrap().contains("a\u{FFFD}b"), "{failed}");
}
