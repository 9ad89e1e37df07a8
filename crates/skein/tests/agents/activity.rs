//! What is written about a session while its agent works.

use serde_json::json;

use crate::desk::Desk;

#[tokio::test]
async fn a_listener_sees_a_turn_as_it_happens() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let mut stream = desk.api.follow(&session, 0).await;

    let turn = desk.api.prompt(&session, "say one\nwait-for go\nsay two").await;
    let before = stream.until(|frame| frame.event == "message.delta").await;
    let open = desk.messages(&session).await;
    std::fs::write(desk.file("go"), "").unwrap();
    let after = stream.until(|frame| frame.event == "turn.completed").await;

    assert_eq!(before.0.last().unwrap().json()["turnId"], turn);
    assert_eq!(before.0.last().unwrap().json()["data"]["text"], "one");
    assert_eq!(
        open.last().unwrap(),
        &("agent".to_owned(), json!({"type": "text", "text": "one", "partial": true}))
    );
    let text: String = before
        .json()
        .iter()
        .chain(&after.json())
        .filter(|event| event["type"] == "message.delta")
        .map(|event| event["data"]["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(text, "onetwo");
    let ids: Vec<u64> = before.ids().into_iter().chain(after.ids()).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn execute_answers_with_what_the_agent_said() {
    let desk = Desk::start(&[]).await;

    let body = json!({"instruction": "say hello", "agent": "scripted", "repoId": desk.repo});
    let answer = desk.api.post("/api/ai/agent/execute", body).await.expect(200).json();

    assert_eq!((&answer["kind"], &answer["text"]), (&json!("answer"), &json!("hello")), "{answer}");
}
