//! Streams that are cut at random, also inside a frame and by crashes, add up to the stored log.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use reqwest::Method;
use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use crate::{
    common::TestServer,
    harness::{Api, EventStream, Frames, Reply, eventually},
    scale, verify,
};

const CONFIG: &str = r#"
[sessions]
default_agent = "chatty"

[agents.chatty]
runtime = "echo"
chunks = 40
chunk_bytes = 60
coalesce = false
"#;

/// Bytes that a reader takes before its connection is cut.
const CUT_AFTER: std::ops::Range<usize> = 1..12_000;

#[tokio::test]
async fn a_stream_resumed_at_random_equals_the_stored_log_byte_for_byte() {
    let (resumes, readers, restarts) = scale::choose((60, 4, 3), (1_000, 8, 25));
    let mut random = scale::random("resume");
    let mut server = TestServer::with_config(CONFIG).await;
    let session = Api::of(&server).create(json!({})).await;
    let (addresses, address) = watch::channel(Api::of(&server));
    let resumed = Arc::new(AtomicUsize::new(0));
    let (progress, mut progressed) = mpsc::channel(1024);

    let mut reading = JoinSet::new();
    for _ in 0..readers {
        let reader = Reader {
            random: StdRng::seed_from_u64(random.random()),
            session: session.clone(),
            address: address.clone(),
            seen: Frames::default(),
        };
        reading.spawn(reader.read(resumes / readers, Arc::clone(&resumed), progress.clone()));
    }
    drop(progress);
    let (stop, stopped) = watch::channel(false);
    let writing = JoinSet::from_iter([write(session.clone(), address.clone(), stopped)]);

    let every = resumes / (restarts + 1);
    let mut done = 0;
    let mut restarted = 0;
    while progressed.recv().await.is_some() {
        done += 1;
        if done % every == 0 && restarted < restarts {
            restarted += 1;
            server.restart().await;
            addresses.send_replace(Api::of(&server));
        }
    }
    stop.send_replace(true);
    let turns = writing.join_all().await.into_iter().sum::<usize>();

    let api = Api::of(&server);
    verify::settled_session(&api, &session).await;
    let stored = api.log(&session).await;
    let last = stored.ids().last().copied().unwrap();
    for mut reader in reading.join_all().await {
        reader.catch_up(last).await;
        assert!(reader.seen.raw() == stored.raw(), "a resumed stream differs from the log");
    }
    eprintln!(
        "{} resumes by {readers} readers over {restarted} restarts, {turns} turns, {} events: equal",
        resumed.load(Ordering::Relaxed),
        stored.0.len()
    );
    assert!(resumed.load(Ordering::Relaxed) >= resumes / readers * readers);
    assert_eq!(restarted, restarts);
}

/// Keeps the log growing until it is told to stop; gives back how many turns were accepted.
async fn write(
    session: String,
    address: watch::Receiver<Api>,
    stop: watch::Receiver<bool>,
) -> usize {
    let mut accepted = 0;
    while !*stop.borrow() {
        let api = address.borrow().clone();
        let path = format!("/api/sessions/{session}/prompt");
        let body = json!({"text": "go on", "onBusy": "reject"});
        match Reply::try_to(api.request(Method::POST, &path).json(&body)).await {
            Ok(reply) if reply.status == 202 => accepted += 1,
            Ok(reply) => assert_eq!(reply.refusal(), (409, "turn_in_progress".to_owned())),
            Err(_) => {}
        }
    }
    accepted
}

struct Reader {
    random: StdRng,
    session: String,
    address: watch::Receiver<Api>,
    /// Only whole frames.
    seen: Frames,
}

impl Reader {
    async fn read(
        mut self,
        resumes: usize,
        resumed: Arc<AtomicUsize>,
        progress: mpsc::Sender<()>,
    ) -> Self {
        for _ in 0..resumes {
            let budget = self.random.random_range(CUT_AFTER);
            self.read_until_cut(budget).await;
            resumed.fetch_add(1, Ordering::Relaxed);
            progress.send(()).await.unwrap();
        }
        self
    }

    /// Takes the stream up, reads this many bytes at most, and forgets what was not a whole frame.
    async fn read_until_cut(&mut self, budget: usize) {
        let mut stream = self.open().await;
        let mut left = budget;
        while left > 0 {
            match stream.read_at_most(left).await {
                Some(read) => left -= read,
                None => break,
            }
            self.take(&mut stream);
        }
    }

    async fn catch_up(&mut self, last: u64) {
        let mut stream = self.open().await;
        while self.position() < last {
            assert!(stream.read_more().await, "the stream ended at {}", self.position());
            self.take(&mut stream);
        }
    }

    fn take(&mut self, stream: &mut EventStream) {
        while let Some(frame) = stream.take_frame() {
            if frame.id.is_some() {
                self.seen.0.push(frame);
            }
        }
    }

    fn position(&self) -> u64 {
        self.seen.0.last().and_then(|frame| frame.id).unwrap_or(0)
    }

    /// Where the server is right now, with the position as a browser sends it, or as a program does.
    async fn open(&mut self) -> EventStream {
        let position = self.position();
        let by_header = position > 0 && self.random.random();
        eventually("the stream can be opened", async || {
            let api = self.address.borrow().clone();
            let path = format!("/api/sessions/{}/events", self.session);
            let request = match by_header {
                true => {
                    api.request(Method::GET, &path).header("last-event-id", position.to_string())
                }
                false => api.request(Method::GET, &format!("{path}?after={position}")),
            };
            EventStream::try_open(request).await.ok()
        })
        .await
    }
}
