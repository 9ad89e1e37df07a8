//! Clients that write under keys and remember what they were told, and whether the store agrees with them.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};

use crate::{
    harness::{Api, Frames, Reply, eventually},
    verify::{self, TurnFacts},
};

/// A request whose fate the writer must learn before it goes on.
#[derive(Debug, Clone)]
struct Request {
    path: String,
    key: String,
    body: Value,
}

/// What the server said to one writer.
#[derive(Debug, Default)]
struct Acknowledged {
    /// Session ids by the name that they were created with.
    sessions: BTreeMap<String, String>,
    /// Turn ids by their instruction.
    turns: BTreeMap<String, String>,
    /// Answers by turn id, where the writer got one.
    answers: BTreeMap<String, String>,
}

/// One of several clients.
pub(crate) struct Writer {
    number: usize,
    random: StdRng,
    requests: Arc<AtomicU64>,
    own_session: Option<String>,
    shared_session: String,
    /// Sent, and not answered in a way that says what became of it.
    unsure: Option<Request>,
    acknowledged: Acknowledged,
}

impl Writer {
    /// So many, who share one session and have others of their own.
    pub(crate) fn many(number: usize, shared_session: &str, random: &mut StdRng) -> Vec<Self> {
        let requests = Arc::new(AtomicU64::new(0));
        (0..number)
            .map(|number| Self {
                number,
                random: StdRng::seed_from_u64(random.random()),
                requests: Arc::clone(&requests),
                own_session: None,
                shared_session: shared_session.to_owned(),
                unsure: None,
                acknowledged: Acknowledged::default(),
            })
            .collect()
    }

    /// Sends the next request, or again the one whose fate is not known.
    pub(crate) async fn step(&mut self, api: &Api) -> Sent {
        let request = match self.unsure.take() {
            Some(request) => request,
            None => self.next_request(),
        };
        let sent = self.send(api, &request).await;
        match sent {
            Sent::Acknowledged | Sent::Refused => {}
            Sent::StillRunning | Sent::Away | Sent::Unknown => self.unsure = Some(request),
        }
        sent
    }

    /// Learns the fate of the last request.
    pub(crate) async fn settle(&mut self, api: &Api) {
        let Some(request) = self.unsure.take() else { return };
        let reply = eventually("the last request is answered", async || {
            let reply = api.keyed(&request.path, &request.key, &request.body);
            let reply = Reply::try_to(reply).await.ok()?;
            // A repeated execute may still wait for its turn.
            (reply.status < 300).then_some(reply)
        })
        .await;
        self.acknowledge(&request, &reply.json());
    }

    fn next_request(&mut self) -> Request {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let key = format!("writer-{}-request-{number}", self.number);
        let choice = self.random.random_range(0..20);
        let Some(own) = self.own_session.clone().filter(|_| choice > 0) else {
            let body = json!({"name": key});
            return Request { path: "/api/sessions".to_owned(), key, body };
        };
        if choice < 8 {
            let path = format!("/api/sessions/{}/prompt", self.shared_session);
            let body = json!({"text": key, "onBusy": "enqueue"});
            return Request { path, key, body };
        }
        let body = json!({"sessionId": own, "instruction": key, "onBusy": "enqueue"});
        Request { path: "/api/ai/agent/execute".to_owned(), key, body }
    }

    async fn send(&mut self, api: &Api, request: &Request) -> Sent {
        let reply = Reply::try_to(api.keyed(&request.path, &request.key, &request.body)).await;
        let Ok(reply) = reply else { return Sent::Unknown };
        match reply.status {
            200..=202 => {
                self.acknowledge(request, &reply.json());
                Sent::Acknowledged
            }
            409 if reply.refusal().1 == "idempotency_in_progress" => Sent::StillRunning,
            429 if reply.refusal().1 == "queue_full" => Sent::Refused,
            503 if reply.refusal().1 == "storage_unavailable" => Sent::Away,
            _ => panic!("{request:?}: {} {}", reply.status, reply.json()),
        }
    }

    fn acknowledge(&mut self, request: &Request, body: &Value) {
        let text = |member: &str| body[member].as_str().map(str::to_owned);
        if let Some(turn) = text("turnId") {
            if let Some(answer) = text("text") {
                self.acknowledged.answers.insert(turn.clone(), answer);
            }
            let known = self.acknowledged.turns.insert(request.key.clone(), turn.clone());
            assert!(known.is_none_or(|known| known == turn), "{request:?} made two turns");
        } else {
            let session = text("id").unwrap();
            let known = self.acknowledged.sessions.insert(request.key.clone(), session.clone());
            assert!(known.is_none_or(|known| known == session), "{request:?} made two sessions");
            self.own_session = Some(session);
        }
    }
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    Acknowledged,
    /// Nothing was made.
    Refused,
    /// A repeated request waits for its turn; its answer comes later.
    StillRunning,
    /// The store is away, and the server said so.
    Away,
    /// The server did not answer.
    Unknown,
}

/// How much was acknowledged to all of them.
pub(crate) fn count(writers: &[Writer]) -> usize {
    let of = |writer: &Writer| writer.acknowledged.turns.len() + writer.acknowledged.sessions.len();
    writers.iter().map(of).sum()
}

/// Everything that was acknowledged is there once, and nothing else; events that were seen live are the stored ones.
pub(crate) async fn check(api: &Api, writers: &[Writer], shared_session: &str, seen: &Frames) {
    let stored = verify::settled_store(api).await;
    let by_instruction: HashMap<&str, &TurnFacts> =
        stored.iter().map(|turn| (turn.instruction.as_str(), turn)).collect();
    assert_eq!(by_instruction.len(), stored.len(), "an instruction was run twice");
    let mut expected = HashSet::new();
    for writer in writers {
        for (instruction, id) in &writer.acknowledged.turns {
            let turn = by_instruction.get(instruction.as_str());
            let turn = turn.unwrap_or_else(|| panic!("lost: {instruction}, turn {id}"));
            assert_eq!(&turn.id, id);
            if let Some(answer) = writer.acknowledged.answers.get(id) {
                assert_eq!(
                    (turn.status.as_str(), turn.answer.as_ref()),
                    ("completed", Some(answer))
                );
            }
            expected.insert(id.as_str());
        }
    }
    let unknown: Vec<_> =
        stored.iter().filter(|turn| !expected.contains(turn.id.as_str())).collect();
    assert!(unknown.is_empty(), "nobody asked for {unknown:?}");

    let names: Vec<String> = verify::sessions(api)
        .await
        .iter()
        .map(|session| session["name"].as_str().unwrap().to_owned())
        .filter(|name| name != "shared")
        .collect();
    let mut wanted: Vec<&String> =
        writers.iter().flat_map(|writer| writer.acknowledged.sessions.keys()).collect();
    wanted.sort();
    let mut found: Vec<&String> = names.iter().collect();
    found.sort();
    assert_eq!(found, wanted, "sessions lost or doubled");

    let log = api.log(shared_session).await;
    let seen_raw: Vec<&str> = seen.0.iter().map(|frame| frame.raw.as_str()).collect();
    let stored_raw: Vec<&str> =
        log.0.iter().take(seen.0.len()).map(|frame| frame.raw.as_str()).collect();
    assert!(seen_raw == stored_raw, "an event that was sent is not in the log as it was sent");
    eprintln!(
        "{} turns, {} sessions, {} events seen live: all there once",
        stored.len(),
        wanted.len(),
        seen.0.len()
    );
}
