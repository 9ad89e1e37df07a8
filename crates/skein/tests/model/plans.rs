//! What was sent and kept back can be seen afterwards, and before.

use serde_json::{Value, json};
use skein_testkit::responses::Answer;

use crate::{
    desk::{Desk, file},
    harness::Api,
};

/// A counter of the page for Prometheus.
async fn counter(api: &Api, name: &str) -> u64 {
    let page = api.get("/metrics").await.expect(200);
    let page = String::from_utf8(page.body.to_vec()).unwrap();
    let line = page.lines().find(|line| line.starts_with(&format!("{name} ")));
    let line = line.unwrap_or_else(|| panic!("no {name} in {page}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn fates(context: &Value) -> Vec<(&str, &str)> {
    let files = context["files"].as_array().unwrap().iter();
    files.map(|file| (file["path"].as_str().unwrap(), file["fate"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn a_plan_says_what_was_sent_and_the_counters_agree() {
    let desk = Desk::new().await;
    let large = "x".repeat(102_401);
    let files = |edited: &str| {
        json!([file("same.rs", "fn same() {}"), file("edited.rs", edited), file("large", &large)])
    };

    let body = json!({"instruction": "one", "activeFiles": files("old")});
    let first = desk.execute(body).await.expect(200).json();
    let session = &first["sessionId"];
    let body = json!({"sessionId": session, "instruction": "two", "activeFiles": files("newer")});
    let second = desk.execute(body).await.expect(200).json();

    let (before, context) = (desk.context_of(&first).await, desk.context_of(&second).await);
    assert_eq!(
        fates(&before),
        [("same.rs", "sent"), ("edited.rs", "sent"), ("large", "too_large")]
    );
    let expected = [("same.rs", "unchanged"), ("edited.rs", "sent"), ("large", "too_large")];
    assert_eq!(fates(&context), expected);
    assert_eq!(context["turnId"], second["turnId"]);
    assert_eq!(context["chain"]["decision"], "continue");
    assert_eq!(
        context["chain"]["previousResponseId"],
        desk.turn_of(&first).await["openAIResponseId"]
    );
    assert!(context["chain"]["expiresAt"].is_string(), "{context}");
    assert_eq!((&context["chunks"], &context["rehydrated"]), (&json!([]), &Value::Null));
    assert_eq!(context["bytesSent"], second["context"]["bytesSent"]);
    assert!(context["bytesSaved"].as_u64().unwrap() >= "fn same() {}".len() as u64, "{context}");
    let turn = desk.turn_of(&second).await;
    assert_eq!(turn["skippedFiles"][0]["path"], "large");
    let sent: Vec<_> = turn["activeFileRefs"].as_array().unwrap().iter().collect();
    let sent: Vec<_> = sent.iter().map(|file| file["wasSentToLLM"].clone()).collect();
    assert_eq!(sent, [false, true, false]);
    let sum = |member: &str| before[member].as_u64().unwrap() + context[member].as_u64().unwrap();
    assert_eq!(counter(&desk.api, "skein_context_bytes_sent_total").await, sum("bytesSent"));
    assert_eq!(counter(&desk.api, "skein_context_bytes_saved_total").await, sum("bytesSaved"));
}

#[tokio::test]
async fn a_dry_run_says_the_same_as_the_turn_and_leaves_nothing() {
    let desk = Desk::new().await;
    let body = json!({"instruction": "one", "activeFiles": [file("a", "1")]});

    let planned = desk.api.post("/api/ai/agent/plan", body.clone()).await.expect(200).json();
    assert_eq!(desk.api.get("/api/sessions").await.json()["total"], 0);
    let first = desk.execute(body).await.expect(200).json();
    let session = first["sessionId"].as_str().unwrap();
    let before = desk.api.last_seq(session).await;
    let next = json!({"instruction": "two", "activeFiles": [file("a", "1"), file("b", "2")]});
    let path = format!("/api/sessions/{session}/turns:plan");
    let planned_next = desk.api.post(&path, next.clone()).await.expect(200).json();
    let mut named = next.clone();
    named["sessionId"] = json!(session);
    let by_name = desk.api.post("/api/ai/agent/plan", named.clone()).await.expect(200).json();
    assert_eq!(desk.api.last_seq(session).await, before);
    let second = desk.execute(named).await.expect(200).json();

    let unnamed = |mut context: Value| {
        context["turnId"] = Value::Null;
        context
    };
    assert_eq!(planned, unnamed(desk.context_of(&first).await));
    assert_eq!(planned_next, by_name);
    assert_eq!(planned_next, unnamed(desk.context_of(&second).await));
    assert_eq!(fates(&planned_next), [("a", "unchanged"), ("b", "sent")]);
    assert_eq!(desk.provider.requests().len(), 2);
    let elsewhere =
        json!({"instruction": "x", "sessionId": "01890a5d-ac96-774b-bcce-b302099a8057"});
    assert_eq!(
        desk.api.post(&path, elsewhere).await.refusal(),
        (400, "invalid_request".to_owned())
    );
}

#[tokio::test]
async fn a_turn_that_has_not_started_has_sent_nothing() {
    let desk = Desk::new().await;
    desk.provider.script(Answer::text("one").hold_before(2, "busy"));
    let session = desk.api.create(json!({})).await;
    desk.api.prompt(&session, "first").await;
    desk.provider.gate("busy").reached().await;

    let waiting = desk.api.enqueue(&session, "second").await;
    let path = format!("/api/sessions/{session}/turns/{waiting}/context");
    let context = desk.api.get(&path).await.expect(200).json();

    assert_eq!(context["chain"]["reason"], "not_planned", "{context}");
    assert_eq!((&context["bytesSent"], &context["tokensSent"]), (&json!(0), &json!(0)));
    desk.provider.gate("busy").open();
    let after = desk.api.finished(&session, &waiting).await;
    assert_eq!(after["status"]["key"], "completed");
    assert_eq!(desk.api.get(&path).await.json()["chain"]["decision"], "continue");
}
