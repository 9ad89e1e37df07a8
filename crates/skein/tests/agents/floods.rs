//! Agents that say more than anybody can write down as fast.

use serde_json::json;
use tokio::task::JoinSet;

use crate::{desk::Desk, harness::eventually, processes::status_bytes, scale};

fn numbers(count: usize) -> String {
    (1..=count).map(|number| format!("{number} ")).collect()
}

#[tokio::test]
async fn ten_thousand_updates_a_second_arrive_whole_and_in_order() {
    let mut desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let before = status_bytes(desk.server.pid(), "VmHWM");

    let said = desk.said(&session, "flood 20000 10000").await;

    assert_eq!(said, numbers(20_000));
    let grown = status_bytes(desk.server.pid(), "VmHWM") - before;
    assert!(grown < 64 * 1024 * 1024, "{grown} bytes");
    desk.assert_sound();
}

#[tokio::test]
async fn a_flood_outside_of_a_turn_is_not_kept() {
    let mut desk = Desk::start(&["--flood", "20000", "0"]).await;
    let session = desk.active().await;
    eventually("it has said everything", async || {
        desk.journal().iter().any(|line| line["flooded"] == 20_000).then_some(())
    })
    .await;

    let before = desk.messages(&session).await;
    let said = desk.said(&session, "say hello").await;

    assert_eq!(before, []);
    // The last of it may still be on its way when the prompt is open.
    assert!(said.ends_with("hello"), "{said}");
    desk.assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_agents_may_stream_at_once() {
    let count = scale::choose(2_000, 30_000);
    let mut desk = Desk::start(&[]).await;
    let mut sessions = Vec::new();
    for _ in 0..5 {
        sessions.push(desk.active().await);
    }

    let mut running = JoinSet::new();
    for session in sessions.clone() {
        let api = desk.api.clone();
        running.spawn(async move {
            let turn = api.prompt(&session, &format!("flood {count} 1000")).await;
            let finished = api.finished(&session, &turn).await;
            (session, turn, finished)
        });
    }

    for (session, turn, finished) in running.join_all().await {
        assert_eq!(finished["status"]["key"], "completed", "{finished}");
        assert_eq!(desk.said_in(&session, &turn).await, numbers(count));
        let deltas = desk.events(&session, "message.delta").await;
        let streamed: String = deltas.iter().map(|delta| delta["text"].as_str().unwrap()).collect();
        assert_eq!(streamed, numbers(count));
    }
    desk.assert_sound();
}

#[tokio::test]
async fn a_flood_can_be_cancelled() {
    let mut desk = Desk::start(&["--ignore-cancel"]).await;
    let session = desk.active().await;
    let turn = desk.api.prompt(&session, "flood 100000000 0").await;
    desk.until_event(&session, "message.delta").await;

    desk.api.delete(&format!("/api/sessions/{session}")).await.expect(200);
    let turn = desk.api.finished(&session, &turn).await;

    assert_eq!(turn["errorCode"], "cancelled");
    desk.nothing_runs().await;
    desk.assert_sound();
}

#[tokio::test]
async fn long_thoughts_are_told_in_events_that_can_be_read_back() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let thought = "why ".repeat(50_000);

    let turn = desk.run(&session, &format!("think {thought}\nthink {thought}\nsay done")).await;

    assert_eq!(turn["status"]["key"], "completed", "{turn}");
    let told = desk.events(&session, "thought.delta").await;
    let texts: Vec<&str> = told.iter().map(|event| event["text"].as_str().unwrap()).collect();
    assert!(texts.iter().all(|text| text.len() <= 64 * 1024), "{}", texts.len());
    assert_eq!(texts.concat().len(), 2 * thought.trim_end().len());
}

/// Whatever an agent has not read yet, it is told that its turn is over, and gets an answer to every question.
#[tokio::test]
async fn an_agent_that_does_not_read_is_told_everything_when_it_does() {
    let mut desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let turn = desk.api.prompt(&session, "deaf-until go\nask-many 3000").await;
    desk.until_event(&session, "permission.requested").await;

    let cancel = format!("/api/sessions/{session}/turns/{turn}/cancel");
    desk.api.post(&cancel, json!({})).await.expect(200);
    let cancelled = desk.api.finished(&session, &turn).await;
    std::fs::write(desk.file("go"), "").unwrap();
    let next = desk.said(&session, "say next").await;

    assert_eq!(cancelled["errorCode"], "cancelled", "{cancelled}");
    assert_eq!(next, "next");
    assert_eq!(desk.received("session/cancel").len(), 1);
    let journal = desk.journal();
    let count =
        |what: fn(&serde_json::Value) -> bool| journal.iter().filter(|line| what(line)).count();
    assert_eq!(count(|line| line["received"]["result"].is_object()), 3_000, "answers");
    assert_eq!(count(|line| line["started"].is_number()), 1, "processes");
    desk.assert_sound();
}

#[tokio::test]
async fn a_hundred_questions_may_be_open_and_more_are_called_off_with_one_warning() {
    let mut desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let turn = desk.api.prompt(&session, "ask-many 103").await;
    let permissions = format!("/api/sessions/{session}/permissions");
    let open = eventually("a hundred questions are open", async || {
        let list = desk.api.get(&permissions).await.expect(200).json().as_array()?.clone();
        (list.len() >= 100).then_some(list)
    })
    .await;

    for question in &open {
        let path = format!("{permissions}/{}", question["requestId"].as_str().unwrap());
        desk.api.post(&path, json!({"optionId": "yes"})).await.expect(200);
    }
    let turn = desk.api.finished(&session, &turn).await;

    assert_eq!(open.len(), 100);
    assert_eq!(turn["status"]["key"], "completed", "{turn}");
    assert_eq!(
        turn["warnings"],
        json!(["the agent asked more than 100 questions at once; 3 of them were called off"])
    );
    let said = desk.said_in(&session, turn["id"].as_str().unwrap()).await;
    assert_eq!(said, "100 selected, 3 not");
    desk.assert_sound();
}

/// Each line is within the limit, and all of them together are not held.
#[tokio::test]
async fn many_large_updates_take_the_memory_of_a_few() {
    const MEGABYTE: u64 = 1024 * 1024;
    let mut desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let before = status_bytes(desk.server.pid(), "VmHWM");
    let count = scale::choose(10, 50);

    let turn = desk.run(&session, &"long-line 15\n".repeat(count)).await;

    let grown = (status_bytes(desk.server.pid(), "VmHWM") - before) / MEGABYTE;
    eprintln!("{count} updates of 15 MB: the server grew by {grown} MB");
    assert_eq!(turn["status"]["key"], "completed", "{}", turn["errors"]);
    assert!(grown < 200, "{grown} MB");
    desk.assert_sound();
}
