//! What happens to an instruction while another one is pending.

use serde_json::{Value, json};

use crate::{
    common::TestServer,
    harness::{AGENTS, Api, Frames, SLOWNESS, eventually},
    start,
};

#[tokio::test]
async fn a_busy_session_refuses_and_names_the_turn_that_is_pending() {
    let (_server, api) = start().await;
    let session = api.create(json!({"agent": "slow"})).await;
    let running = api.prompt(&session, "work").await;
    let prompt = format!("/api/sessions/{session}/prompt");

    let default = api.post(&prompt, json!({"text": "more"})).await;
    let reject = api.post(&prompt, json!({"text": "more", "onBusy": "reject"})).await;
    let execute = api
        .post("/api/ai/agent/execute", json!({"sessionId": session, "instruction": "more"}))
        .await;

    for refused in [default, reject, execute] {
        assert_eq!(refused.refusal(), (409, "turn_in_progress".to_owned()));
        assert_eq!(
            (refused.text("turnId"), &refused.json()["retryable"]),
            (running.clone(), &json!(true))
        );
    }
    let turns = api.get(&format!("/api/sessions/{session}/turns")).await.json();
    assert_eq!(turns["turns"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn enqueued_turns_run_one_after_the_other_in_order_whatever_the_outcome() {
    let (_server, api) = start().await;
    let session = api.create(json!({"agent": "slow"})).await;
    let mut turns = vec![api.prompt(&session, "0").await];
    for number in 1..4 {
        turns.push(api.enqueue(&session, &number.to_string()).await);
    }

    for turn in &turns {
        eventually("the turn has started", async || {
            let log = api.log(&session).await;
            started(&log).contains(turn).then_some(())
        })
        .await;
        api.post(&format!("/api/sessions/{session}/turns/{turn}/cancel"), json!({}))
            .await
            .expect(200);
    }

    let log = api.log(&session).await;
    assert_eq!(started(&log), turns);
    assert_eq!(order(&log), alternating(&turns));
}

#[tokio::test]
async fn queued_turns_run_in_order_after_a_crash_and_the_running_one_is_interrupted() {
    let mut server = TestServer::with_config(AGENTS).await;
    let api = Api::of(&server);
    let session = api.create(json!({"agent": "slow"})).await;
    let mut turns = vec![api.prompt(&session, "0").await];
    for number in 1..5 {
        turns.push(api.enqueue(&session, &number.to_string()).await);
    }

    server.kill();
    server.home().write_config(&AGENTS.replace(SLOWNESS, "chunks = 2"));
    server.restart().await;

    let api = Api::of(&server);
    let mut outcomes = Vec::new();
    for turn in &turns {
        let finished = api.finished(&session, turn).await;
        outcomes.push((finished["status"]["key"].clone(), finished["errorCode"].clone()));
    }
    let completed = (json!("completed"), Value::Null);
    let mut expected = vec![(json!("failed"), json!("interrupted"))];
    expected.extend(std::iter::repeat_n(completed, 4));
    assert_eq!(outcomes, expected);
    let log = api.log(&session).await;
    assert_eq!(order(&log), alternating(&turns));
    assert_eq!(log.ids(), (1..=log.0.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_queue_has_a_limit() {
    let config = format!("{AGENTS}\n[limits]\nqueued_turns = 2\n");
    let server = TestServer::with_config(&config).await;
    let api = Api::of(&server);
    let session = api.create(json!({"agent": "slow"})).await;
    api.prompt(&session, "0").await;
    api.enqueue(&session, "1").await;
    api.enqueue(&session, "2").await;

    let path = format!("/api/sessions/{session}/prompt");
    let refused = api.post(&path, json!({"text": "3", "onBusy": "enqueue"})).await;

    assert_eq!(refused.refusal(), (429, "queue_full".to_owned()));
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.json()["limit"], 2);
}

fn started(log: &Frames) -> Vec<String> {
    let events = log.json().into_iter().filter(|event| event["type"] == "turn.started");
    events.map(|event| event["turnId"].as_str().unwrap().to_owned()).collect()
}

/// Starts and ends of turns as they stand in the log.
fn order(log: &Frames) -> Vec<(String, bool)> {
    log.json()
        .into_iter()
        .filter_map(|event| {
            let starts = match event["type"].as_str().unwrap() {
                "turn.started" => true,
                "turn.completed" | "turn.failed" => false,
                _ => return None,
            };
            Some((event["turnId"].as_str().unwrap().to_owned(), starts))
        })
        .collect()
}

/// Each turn starts and ends before the next one starts.
fn alternating(turns: &[String]) -> Vec<(String, bool)> {
    turns.iter().flat_map(|turn| [(turn.clone(), true), (turn.clone(), false)]).collect()
}
