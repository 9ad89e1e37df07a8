//! What people read of a turn, and the events behind it.

use std::fs;

use serde_json::{Value, json};

use crate::desk::Desk;

#[tokio::test]
async fn texts_plans_and_tools_become_messages() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let prompt = "think hm\nplan look|write\nsay hel\nsay lo\n\
                  tool t1 grep search {\"q\": \"a\"} -> {\"hits\": 1}\nsay there";

    let turn = desk.run(&session, prompt).await;

    assert_eq!(turn["status"]["key"], "completed", "{turn}");
    assert_eq!(turn["warnings"], json!([]), "{turn}");
    let role = |role: &str, content: Value| (role.to_owned(), content);
    let said = |text: &str| role("agent", json!({"type": "text", "text": text, "partial": false}));
    let step = |content: &str, status: &str| json!({"content": content, "status": status, "priority": "medium"});
    assert_eq!(
        desk.messages(&session).await,
        [
            role("user", json!({"type": "text", "text": prompt})),
            role(
                "system",
                json!({"type": "plan", "steps": [step("look", "in_progress"), step("write", "pending")]})
            ),
            said("hello"),
            role(
                "system",
                json!({"type": "tool", "tool": "grep", "args": {"q": "a"}, "result": {"hits": 1}})
            ),
            said("there"),
        ]
    );
}

#[tokio::test]
async fn everything_that_happens_is_an_event() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;

    desk.run(&session, "think hm\nplan look\nsay hello\ntool t1 grep search {\"q\": \"a\"} -> {\"hits\": 1}\nsay there").await;

    let log = desk.api.log(&session).await;
    let types = log.types();
    // A message that was whole before anybody could see a part of it has no deltas.
    let of_turn = types.iter().position(|kind| *kind == "turn.created").unwrap();
    let of_turn: Vec<&str> = types[of_turn..]
        .iter()
        .copied()
        .filter(|kind| {
            !["turn.created", "turn.started", "context.planned", "session.updated", "message.delta"]
                .contains(kind)
        })
        .collect();
    assert_eq!(
        of_turn,
        [
            "message.completed",
            "thought.delta",
            "plan.updated",
            "message.completed",
            "tool.started",
            "tool.completed",
            "message.completed",
            "turn.completed",
        ],
        "{types:?}"
    );
    let [thought] = &desk.events(&session, "thought.delta").await[..] else { panic!("{types:?}") };
    assert_eq!(thought["text"], "hm");
    let [plan] = &desk.events(&session, "plan.updated").await[..] else { panic!("{types:?}") };
    assert_eq!(
        plan["steps"],
        json!([{"content": "look", "status": "in_progress", "priority": "medium"}])
    );
    let [started] = &desk.events(&session, "tool.started").await[..] else { panic!("{types:?}") };
    assert_eq!(
        (&started["toolCallId"], &started["tool"], &started["kind"], &started["args"]),
        (&json!("t1"), &json!("grep"), &json!("search"), &json!({"q": "a"}))
    );
    let [completed] = &desk.events(&session, "tool.completed").await[..] else {
        panic!("{types:?}")
    };
    assert_eq!(
        (&completed["toolCallId"], &completed["tool"], &completed["result"], &completed["status"]),
        (&json!("t1"), &json!("grep"), &json!({"hits": 1}), &json!("completed"))
    );
}

#[tokio::test]
async fn a_tool_that_fails_and_one_that_never_ends_are_closed_with_the_turn() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;

    let turn = desk
        .run(&session, "fail-tool t1 run execute {\"c\": 1} -> {\"error\": \"no\"}\nopen-tool t2 look read {\"p\": \"x\"}\nsay done")
        .await;

    assert_eq!(turn["status"]["key"], "completed", "{turn}");
    let tools = desk.contents(&session, "tool").await;
    assert_eq!(tools.len(), 2, "one message for each call: {tools:?}");
    assert_eq!(
        tools[0],
        json!({"type": "tool", "tool": "run", "args": {"c": 1}, "result": {"error": "no"}})
    );
    assert_eq!((&tools[1]["tool"], &tools[1]["args"]), (&json!("look"), &json!({"p": "x"})));
    let ended = desk.events(&session, "tool.completed").await;
    let statuses: Vec<_> =
        ended.iter().map(|tool| (tool["toolCallId"].clone(), tool["status"].clone())).collect();
    assert_eq!(statuses[0], (json!("t1"), json!("failed")));
    assert_eq!(statuses[1].0, "t2");
    assert!(!["in_progress", "pending"].contains(&statuses[1].1.as_str().unwrap()), "{statuses:?}");
}

#[tokio::test]
async fn a_difference_is_the_result_of_its_tool() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;
    fs::write(desk.file("a.txt"), "one").unwrap();

    desk.said(&session, "diff a.txt two").await;

    assert_eq!(fs::read_to_string(desk.file("a.txt")).unwrap(), "two");
    let [tool] = &desk.contents(&session, "tool").await[..] else { panic!("one tool") };
    assert_eq!((&tool["tool"], &tool["args"]), (&json!("Edit a.txt"), &json!({"path": "a.txt"})));
    let events = desk.events(&session, "tool.completed").await;
    let told = format!("{tool} {events:?}");
    assert!(told.contains("oldText") && told.contains("one") && told.contains("two"), "{told}");
}

#[tokio::test]
async fn tokens_are_counted() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;

    let turn = desk.run(&session, "say hello\nusage 30 12").await;

    assert_eq!(turn["usage"], json!({"inputTokens": 30, "outputTokens": 12}), "{turn}");
    assert_eq!(
        desk.events(&session, "usage.recorded").await,
        [json!({"inputTokens": 30, "outputTokens": 12})]
    );
}

#[tokio::test]
async fn a_turn_may_end_for_other_reasons_and_the_session_goes_on() {
    let mut desk = Desk::start(&[]).await;
    let session = desk.active().await;

    for reason in ["max_tokens", "max_turn_requests", "refusal", "cancelled", "no_such_reason"] {
        let turn = desk.run(&session, &format!("say part\nstop {reason}")).await;

        assert_eq!(desk.said_in(&session, turn["id"].as_str().unwrap()).await, "part");
        let told = format!("{} {}", turn["warnings"], turn["errors"]);
        assert_ne!(told, "[] []", "{reason}: somebody has to know: {turn}");
    }
    let failed = desk.run(&session, "say part\nfail -32603 the model is away").await;

    assert_eq!(failed["status"]["key"], "failed");
    assert!(failed["errors"].to_string().contains("the model is away"), "{failed}");
    assert_eq!(desk.said(&session, "say hello").await, "hello");
    assert_eq!(desk.session(&session).await["state"], "active");
    desk.assert_sound();
}

#[tokio::test]
async fn an_agent_that_asks_for_a_log_in_in_the_middle_is_shown_as_such() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;

    let turn = desk.run(&session, "fail -32000 Authentication required").await;

    assert_eq!(turn["errorCode"], "agent_auth_required", "{turn}");
}

#[tokio::test]
async fn notifications_that_need_no_attention_get_none() {
    let desk = Desk::start(&["--chatter"]).await;
    let session = desk.active().await;

    let turn = desk.run(&session, "say hello").await;

    assert_eq!(turn["warnings"], json!([]), "{turn}");
    assert_eq!(desk.messages(&session).await.len(), 2);
}
