//! SIGKILL at random points under concurrent writers: nothing acknowledged is lost, nothing is there twice.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

use crate::{
    common::TestServer,
    harness::{Api, DEADLINE, EventStream, Frames, Reply, eventually},
    scale,
    verify::{self, TurnFacts},
};

const CONFIG: &str = r#"
[sessions]
default_agent = "echo"
"#;

/// More turns than can be pending at a crash; older ones were looked at before.
const NEWEST: u64 = 1_200;

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

struct Writer {
    number: usize,
    random: StdRng,
    requests: Arc<AtomicU64>,
    own_session: Option<String>,
    shared_session: String,
    /// Sent before the crash, and not answered.
    unsure: Option<Request>,
    acknowledged: Acknowledged,
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_or_doubled_by_kill_nine() {
    let (kills, writers) = scale::choose((5, 8), (200, 32));
    let mut random = scale::random("kill");
    let mut server = TestServer::with_config(CONFIG).await;
    let shared_session = Api::of(&server).create(json!({"name": "shared"})).await;
    let requests = Arc::new(AtomicU64::new(0));
    let mut idle: Vec<Writer> = (0..writers)
        .map(|number| Writer {
            number,
            random: StdRng::seed_from_u64(random.random()),
            requests: Arc::clone(&requests),
            own_session: None,
            shared_session: shared_session.clone(),
            unsure: None,
            acknowledged: Acknowledged::default(),
        })
        .collect();
    let mut seen = Frames::default();

    for kill in 1..=kills {
        let api = Api::of(&server);
        let before = count(&idle);
        let (acknowledge, mut acknowledgements) = mpsc::channel(1024);
        let mut writing = JoinSet::new();
        for writer in idle.drain(..) {
            writing.spawn(writer.write_until_cut(api.clone(), acknowledge.clone()));
        }
        drop(acknowledge);
        let after = seen.ids().last().copied().unwrap_or(0);
        let reading = JoinSet::from_iter([watch(api, shared_session.clone(), after)]);

        for _ in 0..random.random_range(1..writers * 8) {
            timeout(DEADLINE, acknowledgements.recv()).await.expect("writers get answers").unwrap();
        }
        // Not always right behind an acknowledgement.
        tokio::time::sleep(Duration::from_micros(random.random_range(0..3_000))).await;
        server.kill();
        drop(acknowledgements);
        idle = writing.join_all().await;
        seen.0.extend(reading.join_all().await.into_iter().flat_map(|frames| frames.0));

        server.restart().await;
        let acknowledged = count(&idle) - before;
        eprintln!("kill {kill} of {kills}: {acknowledged} acknowledged since the last one");
        let api = Api::of(&server);
        let known = verify::last_number(&api, &shared_session).await.saturating_sub(NEWEST);
        eventually("no turn is pending after a restart", async || {
            let turns = verify::turns_after(&api, &shared_session, known).await;
            turns.iter().all(|turn| turn.status != "pending").then_some(())
        })
        .await;
    }

    let api = Api::of(&server);
    for writer in &mut idle {
        writer.settle(&api).await;
    }
    check(&api, &idle, &shared_session, &seen).await;
}

impl Writer {
    /// Writes until the server is gone.
    async fn write_until_cut(mut self, api: Api, acknowledge: mpsc::Sender<()>) -> Self {
        loop {
            let request = match self.unsure.take() {
                Some(request) => request,
                None => self.next_request(),
            };
            match self.send(&api, &request).await {
                Sent::Acknowledged => {
                    if acknowledge.send(()).await.is_err() {
                        return self;
                    }
                }
                Sent::Refused => {}
                Sent::StillRunning => self.unsure = Some(request),
                Sent::Unknown => {
                    self.unsure = Some(request);
                    return self;
                }
            }
        }
    }

    /// Learns the fate of the last request.
    async fn settle(&mut self, api: &Api) {
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

enum Sent {
    Acknowledged,
    /// Nothing was made.
    Refused,
    /// A repeated request waits for its turn; its answer comes later.
    StillRunning,
    Unknown,
}

fn count(writers: &[Writer]) -> usize {
    let of = |writer: &Writer| writer.acknowledged.turns.len() + writer.acknowledged.sessions.len();
    writers.iter().map(of).sum()
}

/// Reads the live log until the server is gone, which may be before there is a stream.
async fn watch(api: Api, session: String, after: u64) -> Frames {
    let path = format!("/api/sessions/{session}/events?after={after}");
    match EventStream::try_open(api.request(Method::GET, &path)).await {
        Ok(mut stream) => stream.rest().await,
        Err(_) => Frames::default(),
    }
}

async fn check(api: &Api, writers: &[Writer], shared_session: &str, seen: &Frames) {
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
