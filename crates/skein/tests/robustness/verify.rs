//! Whether a store holds together: gapless numbers, one turn at a time, and the log and the turns agree.

use std::collections::HashMap;

use serde_json::Value;

use crate::harness::{Api, Frames, eventually};

/// A turn as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnFacts {
    pub(crate) id: String,
    pub(crate) session: String,
    pub(crate) number: u64,
    pub(crate) status: String,
    pub(crate) instruction: String,
    pub(crate) answer: Option<String>,
}

/// Waits until nothing is pending in the session and nothing changes, then checks all of it.
pub(crate) async fn settled_session(api: &Api, session: &str) -> Vec<TurnFacts> {
    let (turns, log) = eventually("no turn of the session is pending", async || {
        let before = turns(api, session).await;
        if before.iter().any(|turn| turn.status == "pending") {
            return None;
        }
        let log = api.log(session).await;
        // A request whose caller has gone may have come in meanwhile.
        (before == turns(api, session).await).then_some((before, log))
    })
    .await;
    gapless(session, &log);
    agrees(session, &log, &turns);
    turns
}

/// Checks every session that there is, and gives back all turns.
pub(crate) async fn settled_store(api: &Api) -> Vec<TurnFacts> {
    let mut all = Vec::new();
    for session in sessions(api).await {
        all.extend(settled_session(api, session["id"].as_str().unwrap()).await);
    }
    all
}

/// Every session, newest first.
pub(crate) async fn sessions(api: &Api) -> Vec<Value> {
    let mut all = Vec::new();
    let mut query = "?limit=200".to_owned();
    loop {
        let page = api.get(&format!("/api/sessions{query}")).await.expect(200).json();
        all.extend(page["sessions"].as_array().unwrap().iter().cloned());
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        query = format!("?limit=200&cursor={cursor}");
    }
    all
}

/// Every turn of a session in order.
pub(crate) async fn turns(api: &Api, session: &str) -> Vec<TurnFacts> {
    turns_after(api, session, 0).await
}

/// The number of the newest turn, 0 when there is none.
pub(crate) async fn last_number(api: &Api, session: &str) -> u64 {
    let reply = api.get(&format!("/api/sessions/{session}/turns/last")).await;
    match reply.status {
        404 => 0,
        _ => reply.expect(200).json()["sequenceNumber"].as_u64().unwrap(),
    }
}

/// The turns with higher numbers, in order.
pub(crate) async fn turns_after(api: &Api, session: &str, number: u64) -> Vec<TurnFacts> {
    let mut all = Vec::new();
    let mut after = number;
    loop {
        let path = format!("/api/sessions/{session}/turns?limit=200&after={after}");
        let page = api.get(&path).await.expect(200).json();
        let text = |turn: &Value, name: &str| turn[name].as_str().unwrap().to_owned();
        all.extend(page["turns"].as_array().unwrap().iter().map(|turn| TurnFacts {
            id: text(turn, "id"),
            session: session.to_owned(),
            number: turn["sequenceNumber"].as_u64().unwrap(),
            status: turn["status"]["key"].as_str().unwrap().to_owned(),
            instruction: text(turn, "instructionSummary"),
            answer: turn["agentAnswerSummary"].as_str().map(str::to_owned),
        }));
        match page["nextCursor"].as_u64() {
            Some(cursor) => after = cursor,
            None => return all,
        }
    }
}

fn gapless(session: &str, log: &Frames) {
    let expected: Vec<u64> = (1..=log.0.len() as u64).collect();
    assert_eq!(log.ids(), expected, "the log of {session} has gaps or repetitions");
    for (frame, event) in log.0.iter().zip(log.json()) {
        assert_eq!(frame.id, event["seq"].as_u64(), "{event}");
        assert_eq!(frame.event, event["type"].as_str().unwrap(), "{event}");
    }
}

/// The log tells of each turn's life once and in order, never of two at a time, and ends as the turn ended.
fn agrees(session: &str, log: &Frames, turns: &[TurnFacts]) {
    let mut created = Vec::new();
    let mut ended: HashMap<String, &str> = HashMap::new();
    let mut running: Option<String> = None;
    let mut started = Vec::new();
    for event in log.json() {
        let Some(turn) = event["turnId"].as_str().map(str::to_owned) else { continue };
        match event["type"].as_str().unwrap() {
            "turn.created" => {
                let number = event["data"]["sequenceNumber"].as_u64().unwrap();
                created.push((turn, number));
            }
            "turn.started" => {
                assert_eq!(running, None, "two turns of {session} at a time: {event}");
                started.push(turn.clone());
                running = Some(turn);
            }
            end @ ("turn.completed" | "turn.failed") => {
                // A turn that waited can fail without having run.
                if running.as_ref() == Some(&turn) {
                    running = None;
                }
                let status = if end == "turn.completed" { "completed" } else { "failed" };
                assert_eq!(ended.insert(turn, status), None, "ended twice in {session}: {event}");
            }
            "message.delta" => {
                assert_eq!(running.as_ref(), Some(&turn), "a delta outside its turn: {event}");
            }
            _ => {}
        }
    }
    assert_eq!(running, None, "a turn of {session} has no end in the log");
    let listed: Vec<(String, u64)> =
        turns.iter().map(|turn| (turn.id.clone(), turn.number)).collect();
    assert_eq!(created, listed, "the log and the turns of {session} differ");
    let numbers: Vec<u64> = turns.iter().map(|turn| turn.number).collect();
    assert_eq!(numbers, (1..=turns.len() as u64).collect::<Vec<_>>(), "turn numbers of {session}");
    for turn in turns {
        assert_eq!(ended.get(&turn.id).copied(), Some(turn.status.as_str()), "{turn:?}");
    }
    let in_order: Vec<&String> =
        created.iter().map(|(turn, _)| turn).filter(|turn| started.contains(turn)).collect();
    assert_eq!(started.iter().collect::<Vec<_>>(), in_order, "turns of {session} out of order");
}
