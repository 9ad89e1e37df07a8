//! Requests that are repeated until their reply arrives whole create exactly one thing each.

use std::time::Duration;

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpStream, task::JoinSet};

use crate::{
    common::TestServer,
    harness::{Api, Reply, eventually},
    proxy::Proxy,
    scale,
    verify::{self, TurnFacts},
};

#[tokio::test]
async fn a_request_repeated_until_its_reply_arrives_creates_exactly_one_thing() {
    let (callers, requests) = scale::choose((8, 12), (32, 100));
    let mut random = scale::random("retries");
    let server = TestServer::start().await;
    let direct = Api::of(&server);
    let shared = direct.create(json!({"name": "shared"})).await;
    let proxy = Proxy::start(server.address(), StdRng::seed_from_u64(random.random())).await;

    let mut calling = JoinSet::new();
    for caller in 0..callers {
        let api = Api { url: proxy.url.clone(), ..direct.clone() };
        let host = server.address().to_owned();
        let shared = shared.clone();
        calling.spawn(async move {
            let mut made = Vec::new();
            for request in 0..requests {
                let key = format!("caller-{caller}-request-{request}");
                made.push(repeat(&api, &host, &key, &shared).await);
            }
            made
        });
    }
    let made: Vec<Made> = calling.join_all().await.into_iter().flatten().collect();

    let turns = verify::settled_store(&direct).await;
    let sessions = verify::sessions(&direct).await;
    for Made { key, id, kind } in &made {
        let found = match kind {
            Kind::Session => named(&sessions, key),
            Kind::Turn => instructed(&turns, key),
        };
        assert_eq!(found, [id.as_str()], "{key}");
    }
    let wanted = |kind: Kind| made.iter().filter(|made| made.kind == kind).count();
    assert_eq!(turns.len(), wanted(Kind::Turn));
    let by_execute = sessions.iter().filter(|session| session["name"].is_null()).count();
    assert_eq!(sessions.len(), 1 + wanted(Kind::Session) + by_execute);
    let lonely = turns.iter().filter(|turn| turn.session != shared).count();
    assert_eq!(by_execute, lonely, "an execute left a session without its turn");
    eprintln!("{} requests, {} connections cut: one result each", made.len(), proxy.cuts());
    assert!(proxy.cuts() > 0);
}

#[tokio::test]
async fn callers_who_hang_up_at_once_leave_nothing_half_done() {
    let rounds = scale::choose(15, 200);
    let server = TestServer::start().await;
    let api = Api::of(&server);
    let address = server.address();
    let mut carried_out = 0;

    for round in 0..rounds {
        let session = api.create(json!({})).await;
        let path = format!("/api/sessions/{session}");
        for step in 0..4 {
            let body = json!({"text": format!("{round} {step}"), "onBusy": "enqueue"});
            hang_up(address, &api.token, &format!("{path}/prompt"), &body).await;
            let body = json!({"sessionId": session, "instruction": "x", "onBusy": "enqueue"});
            hang_up(address, &api.token, "/api/ai/agent/execute", &body).await;
            if step == 1 {
                let body = json!({"interrupt": round % 2 == 0});
                hang_up(address, &api.token, &format!("{path}/suspend"), &body).await;
                hang_up(address, &api.token, &format!("{path}/resume"), &json!({})).await;
            }
        }
        // A suspension may be carried out after the resumption that was sent behind it.
        eventually("the session goes on", async || {
            let found = api.get(&path).await.expect(200).json();
            if found["state"] == "suspended" {
                api.post(&format!("{path}/resume"), json!({})).await.expect(200);
            }
            let turns = verify::turns(&api, &session).await;
            turns.iter().all(|turn| turn.status != "pending").then_some(())
        })
        .await;
        carried_out += verify::settled_session(&api, &session).await.len();
    }
    eprintln!("{carried_out} of {} instructions were carried out", rounds * 8);
}

#[tokio::test]
async fn a_caller_who_hangs_up_while_resuming_leaves_no_turn_waiting() {
    let rounds = scale::choose(20, 200);
    let agent = "[agents.steady]\nruntime = \"echo\"\nchunks = 20000\nchunk_bytes = 1\n";
    let server = TestServer::with_config(agent).await;
    let api = Api::of(&server);

    let mut sessions = Vec::new();
    for _ in 0..rounds {
        let session = api.create(json!({"agent": "steady"})).await;
        let path = format!("/api/sessions/{session}");
        api.prompt(&session, "first").await;
        api.enqueue(&session, "second").await;
        api.enqueue(&session, "third").await;
        let body = json!({"interrupt": true});
        api.post(&format!("{path}/suspend"), body).await.expect(200);
        hang_up(server.address(), &api.token, &format!("{path}/resume"), &json!({})).await;
        sessions.push(session);
    }

    // Whether a request was carried out or given up, it was so as a whole.
    let mut resumed = 0;
    for session in &sessions {
        resumed += eventually("the session is suspended, or its queue has run", async || {
            let found = api.get(&format!("/api/sessions/{session}")).await.expect(200).json();
            let turns = verify::turns(&api, session).await;
            let waits = turns.iter().any(|turn| turn.status == "pending");
            match found["state"].as_str().unwrap() {
                "suspended" => Some(0),
                _ => (!waits).then_some(1),
            }
        })
        .await;
    }
    eprintln!("{resumed} of {rounds} were carried out");
}

/// Sends a whole request and is gone before the answer.
async fn hang_up(address: &str, token: &str, path: &str, body: &Value) {
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    // The server is somewhere between the first byte and the commit when the caller goes.
    let patience = Duration::from_micros(rand::rng().random_range(0..8_000));
    tokio::time::sleep(patience).await;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Session,
    Turn,
}

/// What a request is known to have made.
struct Made {
    key: String,
    id: String,
    kind: Kind,
}

/// Sends the same request again and again until its reply comes whole.
async fn repeat(api: &Api, host: &str, key: &str, shared: &str) -> Made {
    let (path, body, kind) = match key.len() + key.bytes().map(usize::from).sum::<usize>() {
        sum if sum % 3 == 0 => ("/api/sessions".to_owned(), json!({"name": key}), Kind::Session),
        sum if sum % 3 == 1 => {
            let body = json!({"text": key, "onBusy": "enqueue"});
            (format!("/api/sessions/{shared}/prompt"), body, Kind::Turn)
        }
        _ => ("/api/ai/agent/execute".to_owned(), json!({"instruction": key}), Kind::Turn),
    };
    let reply = eventually("the reply arrives whole", async || {
        // The proxy has another port than the server knows itself by, and cuts by the connection.
        let request = api.keyed(&path, key, &body).header("host", host);
        let request = request.header("connection", "close");
        let reply = Reply::try_to(request).await.ok()?;
        match reply.status {
            200..=202 => Some(reply.json()),
            409 => {
                assert_eq!(reply.refusal().1, "idempotency_in_progress");
                None
            }
            _ => panic!("{key}: {} {}", reply.status, reply.json()),
        }
    })
    .await;
    let member = match kind {
        Kind::Session => "id",
        Kind::Turn => "turnId",
    };
    let id = reply[member].as_str().unwrap().to_owned();
    Made { key: key.to_owned(), id, kind }
}

fn named<'a>(sessions: &'a [Value], name: &str) -> Vec<&'a str> {
    let found = sessions.iter().filter(|session| session["name"] == name);
    found.map(|session| session["id"].as_str().unwrap()).collect()
}

fn instructed<'a>(turns: &'a [TurnFacts], instruction: &str) -> Vec<&'a str> {
    let found = turns.iter().filter(|turn| turn.instruction == instruction);
    found.map(|turn| turn.id.as_str()).collect()
}
