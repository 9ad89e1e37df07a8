//! SIGKILL at random points under concurrent writers: nothing acknowledged is lost, nothing is there twice.

use std::time::Duration;

use rand::Rng as _;
use reqwest::Method;
use serde_json::json;
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

use crate::{
    common::TestServer,
    harness::{Api, DEADLINE, EventStream, Frames, eventually},
    scale, verify,
    writers::{Sent, Writer, check, count},
};

const CONFIG: &str = r#"
[sessions]
default_agent = "echo"
"#;

/// More turns than can be pending at a crash; older ones were looked at before.
const NEWEST: u64 = 1_200;

#[tokio::test]
async fn nothing_acknowledged_is_lost_or_doubled_by_kill_nine() {
    let (kills, writers) = scale::choose((5, 8), (200, 32));
    let mut random = scale::random("kill");
    let mut server = TestServer::with_config(CONFIG).await;
    let shared_session = Api::of(&server).create(json!({"name": "shared"})).await;
    let mut idle = Writer::many(writers, &shared_session, &mut random);
    let mut seen = Frames::default();

    for kill in 1..=kills {
        let api = Api::of(&server);
        let before = count(&idle);
        let (acknowledge, mut acknowledgements) = mpsc::channel(1024);
        let mut writing = JoinSet::new();
        for writer in idle.drain(..) {
            writing.spawn(write_until_cut(writer, api.clone(), acknowledge.clone()));
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

/// Writes until the server is gone.
async fn write_until_cut(mut writer: Writer, api: Api, acknowledge: mpsc::Sender<()>) -> Writer {
    loop {
        match writer.step(&api).await {
            Sent::Acknowledged => {
                if acknowledge.send(()).await.is_err() {
                    return writer;
                }
            }
            Sent::Refused | Sent::StillRunning => {}
            Sent::Away => panic!("the store is away"),
            Sent::Unknown => return writer,
        }
    }
}

/// Reads the live log until the server is gone, which may be before there is a stream.
async fn watch(api: Api, session: String, after: u64) -> Frames {
    let path = format!("/api/sessions/{session}/events?after={after}");
    match EventStream::try_open(api.request(Method::GET, &path)).await {
        Ok(mut stream) => stream.rest().await,
        Err(_) => Frames::default(),
    }
}
