//! What `config.toml` says reaches the turns.

use serde_json::{Value, json};
use skein_core::model::Timestamp;
use skein_testkit::responses::{Answer, Ending, Refusal};

use crate::desk::{Desk, file};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Days from the response to the end of its chain; `None` when nobody can tell.
fn chain_days(turn: &Value) -> Option<i64> {
    let millis = |member: &str| {
        let time: Timestamp = turn[member].as_str()?.parse().unwrap();
        Some(time.as_millis())
    };
    let (from, to) = (millis("openAIResponseReceivedDate")?, millis("openAIChainExpiresDate")?);
    // The two are taken one shortly after the other.
    Some((to - from + DAY_MS / 2).div_euclid(DAY_MS))
}

#[tokio::test]
async fn a_chain_is_relied_on_for_as_long_as_the_configuration_says() {
    for (settings, days) in [("", 30), ("[sessions]\nchain_days = 7\n", 7)] {
        let desk = Desk::with(settings).await;

        let answer = desk.ask(&Value::Null, "one").await;

        let turn = desk.turn_of(&answer).await;
        assert_eq!(chain_days(&turn), Some(days), "{turn}");
        let path = format!("/api/sessions/{}", answer["sessionId"].as_str().unwrap());
        let session = desk.api.get(&path).await.expect(200).json();
        assert_eq!(session["chainExpiresDate"], turn["openAIChainExpiresDate"]);
    }
}

#[tokio::test]
async fn a_failed_turn_has_the_expiry_of_a_response_that_is_known_and_else_none() {
    let desk = Desk::with("[sessions]\nchain_days = 7\n").await;
    let ending = Ending::Failed { code: "server_error".to_owned(), message: "it broke".to_owned() };
    desk.provider.script(Answer::text("half").ending(ending));
    let known = desk.ask(&Value::Null, "one").await;
    desk.provider.script(Refusal::status(500));
    let unknown = desk.ask(&known["sessionId"], "two").await;

    let (known, unknown) = (desk.turn_of(&known).await, desk.turn_of(&unknown).await);

    for turn in [&known, &unknown] {
        assert_eq!(turn["status"]["key"], "failed");
        assert_eq!(turn["statusTimeStamp"], turn["openAIResponseReceivedDate"], "{turn}");
        assert_eq!(turn["agentAnswerSummary"], Value::Null);
        assert_eq!(turn["fullAgentAnswerUrl"], Value::Null);
        assert!(turn["openAIResponsePayloadUrl"].is_string(), "{turn}");
    }
    assert!(known["openAIResponseId"].is_string(), "{known}");
    assert_eq!(chain_days(&known), Some(7));
    assert_eq!(unknown["openAIResponseId"], Value::Null);
    assert_eq!(unknown["openAIChainExpiresDate"], Value::Null);
}

#[tokio::test]
async fn a_budget_in_the_configuration_ends_turns_before_they_are_sent() {
    let budgets = [
        ("session_tokens", "the session's budget of 1 tokens"),
        ("user_tokens", "the user's budget of 1 tokens"),
        ("org_tokens", "the organisation's budget of 1 tokens"),
    ];
    for (setting, said) in budgets {
        let desk = Desk::with(&format!("[budgets]\n{setting} = 1\n")).await;
        let first = desk.ask(&Value::Null, "one").await;

        let second = desk.ask(&first["sessionId"], "two").await;
        let elsewhere = desk.ask(&Value::Null, "three").await;

        assert_eq!(first["kind"], "answer");
        assert_eq!(second["errorCode"], "budget_exceeded", "{setting}");
        assert!(second["errorMessage"].as_str().unwrap().contains(said), "{second}");
        let is_of_a_session = setting == "session_tokens";
        assert_eq!(elsewhere["kind"] == "answer", is_of_a_session, "{setting}: {elsewhere}");
        assert_eq!(desk.sent().len(), 1 + usize::from(is_of_a_session));
    }
}

#[tokio::test]
async fn a_rebuilt_conversation_is_as_long_as_the_configuration_says() {
    let cases: [(&str, &[&str], usize); 3] = [
        ("", &["long.rs", "short.rs"], 1),
        ("[context]\nlive_tokens = 5\n", &["short.rs"], 1),
        ("[context]\nhistory_tokens = 1\n", &["long.rs", "short.rs"], 0),
    ];
    for (settings, files, turns) in cases {
        let desk = Desk::with(settings).await;
        let shown = json!([file("long.rs", &"x".repeat(400)), file("short.rs", "fn a() {}")]);
        let body = json!({"instruction": "one", "activeFiles": shown});
        let first = desk.execute(body).await.expect(200).json();
        desk.provider.forget_all();

        let second = desk.ask(&first["sessionId"], "two").await;

        let rehydrated = desk.context_of(&second).await["rehydrated"].clone();
        let again = rehydrated["files"].as_array().unwrap().iter();
        let mut again: Vec<_> = again.map(|file| file["item"].as_str().unwrap()).collect();
        again.sort_unstable();
        assert_eq!(again, files, "{settings}: {rehydrated}");
        assert_eq!(rehydrated["turns"].as_array().unwrap().len(), turns, "{settings}");
        let sent = desk.sent().pop().unwrap().to_string();
        assert_eq!(sent.contains(&"x".repeat(400)), files.contains(&"long.rs"), "{settings}");
    }
}

#[tokio::test]
async fn passages_are_as_many_and_as_long_as_the_configuration_says() {
    let cases = [
        ("", vec!["new", "new"]),
        ("[context]\npassage_tokens = 10\n", vec!["over_budget", "over_budget"]),
        ("[context]\npassages = 1\n", vec!["new"]),
    ];
    for (settings, expected) in cases {
        let desk = Desk::with(settings).await;
        let session = desk.api.create(json!({})).await;
        for name in ["tides.md", "moons.md"] {
            let content = format!("The harbour and its {name}.\n{}", "It is deep. ".repeat(10));
            let document = json!({"name": name, "mediaType": "text/markdown", "content": content});
            let path = format!("/api/sessions/{session}/documents");
            desk.api.post(&path, document).await.expect(201);
        }

        let answer = desk.ask(&json!(session), "What is in the harbour?").await;

        let context = desk.context_of(&answer).await;
        let chunks = context["chunks"].as_array().unwrap().iter();
        let fates: Vec<_> = chunks.map(|chunk| chunk["fate"].as_str().unwrap()).collect();
        assert_eq!(fates, expected, "{settings}: {context}");
    }
}
