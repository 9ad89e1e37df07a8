//! Prompts and the turns they make.

use serde_json::{Value, json};

use crate::{
    harness::{Api, eventually},
    redact::redact,
    shapes::{completed_turn, turn_summary, with},
    start,
};

#[tokio::test]
async fn a_prompt_is_accepted_at_once_and_becomes_a_completed_turn() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;

    let path = format!("/api/sessions/{session}/prompt");
    let accepted = api.post(&path, json!({"text": "hello"})).await.expect(202);

    let turn = accepted.text("turnId");
    let names = [(session.as_str(), "SESSION"), (turn.as_str(), "TURN")];
    assert_eq!(
        redact(&accepted.json(), &names),
        json!({"turnId": "TURN", "sequenceNumber": 1, "status": "pending"})
    );
    let finished = api.finished(&session, &turn).await;
    assert_eq!(redact(&finished, &names), completed_turn("hello"));
    assert_eq!(finished["statusTimeStamp"], finished["openAIResponseReceivedDate"]);
}

#[tokio::test]
async fn a_pending_turn_has_no_answer_yet() {
    let (_server, api) = start().await;
    let session = api.create(json!({"agent": "slow"})).await;
    let turn = api.prompt(&session, "work").await;

    let pending = api.turn(&session, &turn).await;

    let expected = with(
        completed_turn("work"),
        json!({
            "status": {"id": "pending", "key": "pending", "text": "Pending"},
            "openAIResponseReceivedDate": null,
            "firstTokenDate": null,
            "agentAnswerSummary": null,
            "fullAgentAnswerUrl": null,
        }),
    );
    assert_eq!(redact(&pending, &[(&session, "SESSION"), (&turn, "TURN")]), expected);
    assert_eq!(pending["statusTimeStamp"], pending["creationDate"]);
}

#[tokio::test]
async fn turns_are_paged_in_both_directions_always_ascending() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let none = numbers(&api, &session, "").await;
    let empty_last = api.get(&format!("/api/sessions/{session}/turns/last")).await;
    run_turns(&api, &session, 5).await;

    let pages: Vec<_> = [
        numbers(&api, &session, "").await,
        numbers(&api, &session, "?limit=2").await,
        numbers(&api, &session, "?after=2&limit=2").await,
        numbers(&api, &session, "?after=4").await,
        numbers(&api, &session, "?after=5").await,
        numbers(&api, &session, "?before=4&limit=2").await,
        numbers(&api, &session, "?before=2").await,
        numbers(&api, &session, "?before=1").await,
    ]
    .into();

    assert_eq!(none, [0; 0]);
    assert_eq!(empty_last.refusal(), (404, "not_found".to_owned()));
    assert_eq!(
        pages,
        [vec![1, 2, 3, 4, 5], vec![1, 2], vec![3, 4], vec![5], vec![], vec![2, 3], vec![1], vec![],]
    );
}

#[tokio::test]
async fn the_next_cursor_of_a_page_of_turns_leads_to_the_next_page() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    run_turns(&api, &session, 5).await;

    let mut seen = Vec::new();
    let mut query = "?limit=2".to_owned();
    loop {
        let path = format!("/api/sessions/{session}/turns{query}");
        let page = api.get(&path).await.expect(200).json();
        seen.extend(numbers_of(&page));
        let Some(cursor) = page["nextCursor"].as_u64() else { break };
        query = format!("?limit=2&after={cursor}");
    }

    assert_eq!(seen, [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn a_list_has_summaries_and_a_turn_is_found_in_every_form() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    run_turns(&api, &session, 2).await;
    let path = format!("/api/sessions/{session}/turns");

    let page = api.get(&path).await.expect(200).json();
    let last = api.get(&format!("{path}/last")).await.expect(200).json();
    let id = last["id"].as_str().unwrap();
    let by_id = api.get(&format!("{path}/{id}")).await.expect(200).json();
    let summary = api.get(&format!("{path}/{id}/summary")).await.expect(200).json();

    let expected = [turn_summary(1, "turn 1"), turn_summary(2, "turn 2")];
    assert_eq!(redact(&page["turns"], &[(&session, "SESSION")]), json!(expected));
    assert_eq!(by_id, last);
    assert_eq!(last["sequenceNumber"], 2);
    assert_eq!(summary, page["turns"][1]);
}

#[tokio::test]
async fn the_context_of_a_turn_tells_what_became_of_each_file() {
    let (_server, api) = start().await;
    let large = "x".repeat(102_401);
    let body = json!({"instruction": "look", "activeFiles": [
        {"path": "src/a.rs", "content": "fn a() {}", "isTouched": true},
        {"path": "src/big.rs", "content": large},
    ]});
    let executed = api.post("/api/ai/agent/execute", body).await.expect(200).json();
    let (session, turn) =
        (executed["sessionId"].as_str().unwrap(), executed["turnId"].as_str().unwrap());

    let context =
        api.get(&format!("/api/sessions/{session}/turns/{turn}/context")).await.expect(200).json();
    let stored = api.turn(session, turn).await;

    assert_eq!(context["turnId"], turn);
    let fates: Vec<_> = context["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (&file["path"], &file["fate"]))
        .collect();
    assert_eq!(
        fates,
        [(&json!("src/a.rs"), &json!("not_used")), (&json!("src/big.rs"), &json!("too_large"))]
    );
    assert_eq!(context["chunks"], json!([]));
    assert_eq!(context["difference"], json!({"added": [], "removed": [], "kept": []}));
    assert_eq!(context["rehydrated"], Value::Null);
    let touched: Vec<_> = stored["activeFileRefs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (&file["isTouched"], &file["wasSentToLLM"], &file["wasTooLargeToSend"]))
        .collect();
    assert_eq!(
        touched,
        [
            (&json!(true), &json!(false), &json!(false)),
            (&json!(false), &json!(false), &json!(true))
        ]
    );
    assert_eq!(stored["skippedFiles"][0]["path"], "src/big.rs");
    assert_eq!(stored["skippedFiles"][0]["sizeBytes"], 102_401);
}

#[tokio::test]
async fn a_rerun_is_a_new_turn_and_leaves_the_old_one_alone() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let turn = api.prompt(&session, "hello").await;
    let before = api.finished(&session, &turn).await;
    let path = format!("/api/sessions/{session}/turns/{turn}/rerun");

    let same = api.post(&path, json!({})).await.expect(202);
    let same_id = same.text("turnId");
    let again = api.finished(&session, &same_id).await;
    let changed = api.post(&path, json!({"instruction": "bye", "mode": "edit"})).await.expect(202);
    let changed = api.finished(&session, &changed.text("turnId")).await;

    assert_eq!(
        (&same.json()["sequenceNumber"], &same.json()["status"]),
        (&json!(2), &json!("pending"))
    );
    assert_eq!((&again["instructionSummary"], &again["rerunOf"]), (&json!("hello"), &json!(turn)));
    assert_eq!(
        (&changed["instructionSummary"], &changed["mode"], &changed["rerunOf"]),
        (&json!("bye"), &json!("edit"), &json!(turn))
    );
    assert_eq!(api.turn(&session, &turn).await, before);
}

#[tokio::test]
async fn cancelling_a_running_turn_fails_it_and_closes_its_message() {
    let (_server, api) = start().await;
    let session = api.create(json!({"agent": "slow"})).await;
    let turn = api.prompt(&session, "work").await;
    let mut stream = api.follow(&session, 0).await;
    let begun = stream.until(|frame| frame.event == "message.delta").await;
    let message = begun.json().last().unwrap()["data"]["messageId"].clone();

    let path = format!("/api/sessions/{session}/turns/{turn}/cancel");
    let cancelled = api.post(&path, json!({})).await.expect(200).json();
    let again = api.post(&path, json!({})).await;

    assert_eq!(cancelled["status"], json!({"id": "failed", "key": "failed", "text": "Failed"}));
    assert_eq!(cancelled["errorCode"], "cancelled");
    assert_eq!(cancelled["errors"], json!(["the turn was cancelled"]));
    assert_eq!(again.refusal(), (409, "turn_already_finished".to_owned()));
    let rest = stream.until(|frame| frame.event == "turn.failed").await;
    let ends: Vec<Value> =
        rest.json().into_iter().filter(|event| event["type"] != "message.delta").collect();
    assert_eq!(ends.len(), 3, "{ends:?}");
    assert_eq!(ends[0]["data"]["messageId"], message);
    assert_eq!(ends[0]["data"]["content"]["interrupted"], true, "{}", ends[0]);
    assert_eq!(
        ends[1]["data"]["content"],
        json!({"type": "error", "message": "the turn was cancelled", "code": "cancelled"})
    );
    assert_eq!(
        ends[2]["data"],
        json!({
            "sequenceNumber": 1,
            "errorCode": "cancelled",
            "errors": ["the turn was cancelled"],
            "warnings": [],
        })
    );
}

#[tokio::test]
async fn cancelling_a_queued_turn_leaves_the_running_one_alone() {
    let (_server, api) = start().await;
    let session = api.create(json!({"agent": "slow"})).await;
    let running = api.prompt(&session, "work").await;
    let queued = api.enqueue(&session, "later").await;

    let path = format!("/api/sessions/{session}/turns/{queued}/cancel");
    let cancelled = api.post(&path, json!({})).await.expect(200).json();

    assert_eq!(cancelled["errorCode"], "cancelled");
    assert_eq!(api.turn(&session, &running).await["status"]["key"], "pending");
    let log = api.log(&session).await;
    let started = log.json().into_iter().filter(|event| event["type"] == "turn.started");
    assert_eq!(started.map(|event| event["turnId"].clone()).collect::<Vec<_>>(), [json!(running)]);
}

#[tokio::test]
async fn a_turn_of_another_session_is_not_found_here() {
    let (_server, api) = start().await;
    let (one, other) = (api.create(json!({})).await, api.create(json!({})).await);
    let turn = api.prompt(&one, "hello").await;
    api.finished(&one, &turn).await;

    let found = api.get(&format!("/api/sessions/{other}/turns/{turn}")).await;

    assert_eq!(found.refusal(), (404, "not_found".to_owned()));
}

#[tokio::test]
async fn a_long_instruction_is_summarised_to_1024_characters_and_kept_whole() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let instruction = "é😀".repeat(1000);

    let turn = api.prompt(&session, &instruction).await;
    let finished = api.finished(&session, &turn).await;

    let summary: String = instruction.chars().take(1024).collect();
    assert_eq!(finished["instructionSummary"], summary);
    assert_eq!(finished["agentAnswerSummary"], summary);
    let whole = api.get(finished["fullInstructionUrl"].as_str().unwrap()).await.expect(200);
    assert_eq!(whole.body, instruction.as_bytes());
}

async fn run_turns(api: &Api, session: &str, count: u32) {
    for number in 1..=count {
        let turn = api.prompt(session, &format!("turn {number}")).await;
        api.finished(session, &turn).await;
    }
    eventually("all turns are counted", async || {
        let found = api.get(&format!("/api/sessions/{session}?include=")).await.json();
        (found["turnCount"] == count).then_some(())
    })
    .await;
}

async fn numbers(api: &Api, session: &str, query: &str) -> Vec<u64> {
    let page = api.get(&format!("/api/sessions/{session}/turns{query}")).await.expect(200).json();
    numbers_of(&page)
}

fn numbers_of(page: &Value) -> Vec<u64> {
    let turns = page["turns"].as_array().unwrap();
    turns.iter().map(|turn| turn["sequenceNumber"].as_u64().unwrap()).collect()
}
