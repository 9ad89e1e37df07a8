//! Many callers of one session at once: numbers without gaps, one turn at a time, order kept.

use std::collections::HashSet;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    common::TestServer,
    harness::{AGENTS, Api, Reply, eventually},
    scale, verify,
};

#[tokio::test]
async fn concurrent_prompts_are_queued_and_run_one_after_the_other() {
    let prompts = scale::choose(32, 500);
    let server = TestServer::with_config(AGENTS).await;
    let api = Api::of(&server);
    let session = api.create(json!({"agent": "echo"})).await;
    let path = format!("/api/sessions/{session}/prompt");

    let replies = join_all((0..prompts).map(|number| {
        api.post(&path, json!({"text": format!("prompt {number}"), "onBusy": "enqueue"}))
    }))
    .await;

    let turns = verify::settled_session(&api, &session).await;
    let mut accepted: Vec<(u64, String)> = replies
        .into_iter()
        .map(|reply| {
            let body = reply.expect(202).json();
            (body["sequenceNumber"].as_u64().unwrap(), body["turnId"].as_str().unwrap().to_owned())
        })
        .collect();
    accepted.sort();
    let stored: Vec<(u64, String)> =
        turns.iter().map(|turn| (turn.number, turn.id.clone())).collect();
    assert_eq!(accepted, stored);
    assert!(turns.iter().all(|turn| turn.status == "completed"));
}

#[tokio::test]
async fn of_concurrent_prompts_that_do_not_queue_each_is_run_or_refused() {
    let server = TestServer::with_config(AGENTS).await;
    let api = Api::of(&server);
    let session = api.create(json!({"agent": "slow"})).await;
    let path = format!("/api/sessions/{session}/prompt");

    let replies =
        join_all((0..32).map(|number| api.post(&path, json!({"text": number.to_string()})))).await;

    let accepted: Vec<_> = replies.iter().filter(|reply| reply.status == 202).collect();
    assert_eq!(accepted.len(), 1);
    for refused in replies.iter().filter(|reply| reply.status != 202) {
        assert_eq!(refused.refusal(), (409, "turn_in_progress".to_owned()));
        assert_eq!(refused.text("turnId"), accepted[0].text("turnId"));
    }
    api.delete(&format!("/api/sessions/{session}")).await.expect(200);
    assert_eq!(verify::settled_session(&api, &session).await.len(), 1);
}

#[tokio::test]
async fn edits_and_changes_of_state_race_with_prompts_and_leave_a_whole_session() {
    let rounds = scale::choose(10, 100);
    let server = TestServer::with_config(AGENTS).await;
    let api = Api::of(&server);
    let session = api.create(json!({"agent": "echo"})).await;
    let path = format!("/api/sessions/{session}");

    let mut callers = JoinSet::new();
    for caller in 0..8 {
        let (api, path) = (api.clone(), path.clone());
        callers.spawn(async move {
            let mut accepted = Vec::new();
            for round in 0..rounds {
                accepted.push(prompt(&api, &path, &format!("{caller}/{round}")).await);
            }
            accepted
        });
    }
    let mut editors = JoinSet::new();
    for editor in 0..4 {
        let (api, path) = (api.clone(), path.clone());
        editors.spawn(async move {
            for round in 0..rounds {
                let name = json!({"name": format!("{editor}/{round}")});
                allowed(&api.patch(&path, name).await, &[200]);
            }
        });
    }
    let mut movers = JoinSet::new();
    for mover in 0..2 {
        let (api, path) = (api.clone(), path.clone());
        movers.spawn(async move {
            for round in 0..rounds {
                let interrupt = (round + mover) % 2 == 0;
                let body = json!({"interrupt": interrupt});
                let suspended = api.post(&format!("{path}/suspend"), body).await;
                allowed(&suspended, &[200, 409]);
                let resumed = api.post(&format!("{path}/resume"), json!({})).await;
                allowed(&resumed, &[200, 409]);
            }
        });
    }
    editors.join_all().await;
    movers.join_all().await;
    // Whoever suspended last may have left it so.
    eventually("the session is not suspended", async || {
        let reply = api.post(&format!("{path}/resume"), json!({})).await;
        allowed(&reply, &[200, 409]);
        (reply.status != 503).then_some(())
    })
    .await;
    let accepted: Vec<Vec<u64>> = callers.join_all().await;

    let turns = verify::settled_session(&api, &session).await;
    assert!(accepted.iter().all(|numbers| numbers.is_sorted()), "a caller's order was not kept");
    let numbers: HashSet<u64> = accepted.into_iter().flatten().collect();
    assert_eq!(numbers, turns.iter().map(|turn| turn.number).collect());
    let found = api.get(&path).await.expect(200);
    assert_eq!(found.json()["turnCount"], turns.len());
    let etag = format!("\"r{}\"", revisions(&api, &session).await);
    assert_eq!(found.header("etag"), Some(etag.as_str()));
}

#[tokio::test]
async fn a_session_that_is_ended_while_prompts_come_in_ends_whole() {
    let server = TestServer::with_config(AGENTS).await;
    let api = Api::of(&server);
    for (round, ending) in ["complete", "delete", "complete", "delete"].into_iter().enumerate() {
        let session = api.create(json!({"agent": "echo"})).await;
        let path = format!("/api/sessions/{session}");
        let mut callers = JoinSet::new();
        for caller in 0..8 {
            let (api, path) = (api.clone(), path.clone());
            callers.spawn(async move {
                let mut accepted = 0;
                loop {
                    let body = json!({"text": format!("{round} {caller}"), "onBusy": "enqueue"});
                    let reply = api.post(&format!("{path}/prompt"), body).await;
                    if reply.status != 202 {
                        assert_eq!(reply.refusal(), (409, "session_not_active".to_owned()));
                        return accepted;
                    }
                    accepted += 1;
                }
            });
        }
        eventually("some turns were accepted", async || {
            let found = api.get(&path).await.json();
            (found["turnCount"].as_u64() > Some(10)).then_some(())
        })
        .await;

        let ended = match ending {
            "delete" => api.delete(&path).await,
            _ => api.post(&format!("{path}/complete"), json!({"interrupt": true})).await,
        };

        assert_eq!(ended.status, 200, "{}", ended.json());
        let accepted: usize = callers.join_all().await.into_iter().sum();
        let turns = verify::settled_session(&api, &session).await;
        assert_eq!(turns.len(), accepted);
        let log = api.log(&session).await;
        let last = log.types().last().copied().unwrap().to_owned();
        assert!(last == "session.completed" || last == "session.cancelled", "{last}");
    }
}

/// Sends until it is accepted: a suspended session refuses for a while.
async fn prompt(api: &Api, path: &str, text: &str) -> u64 {
    eventually("the prompt is accepted", async || {
        let body = json!({"text": text, "onBusy": "enqueue"});
        let reply = api.post(&format!("{path}/prompt"), body).await;
        allowed(&reply, &[202, 409]);
        (reply.status == 202).then(|| reply.json()["sequenceNumber"].as_u64().unwrap())
    })
    .await
}

/// Whoever loses too many races in a row is told to try again.
fn allowed(reply: &Reply, statuses: &[u16]) {
    if reply.status == 503 {
        assert_eq!(reply.json()["retryable"], true, "{}", reply.json());
    } else {
        assert!(statuses.contains(&reply.status), "{} {}", reply.status, reply.json());
    }
}

/// The revision that the log ends with; each change of it is told once.
async fn revisions(api: &Api, session: &str) -> u64 {
    let log = api.log(session).await.json();
    let told: Vec<u64> = log
        .iter()
        .filter(|event| event["turnId"] == Value::Null)
        .filter_map(|event| event["data"]["revision"].as_u64())
        .collect();
    assert_eq!(told, (1..=told.len() as u64).collect::<Vec<_>>());
    told.len() as u64
}
