//! The database crashes under concurrent writers: some are told to come back, and nothing acknowledged is lost or doubled.

use std::time::Duration;

use rand::Rng as _;
use reqwest::Method;
use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};

use crate::{
    cluster::Cluster,
    common::{TestHome, TestServer},
    harness::{Api, DEADLINE, EventStream, Frames, eventually},
    scale,
    writers::{Sent, Writer, check, count},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_or_doubled_by_crashes_of_the_database() {
    let (crashes, writers) = scale::choose((3, 8), (40, 32));
    let mut random = scale::random("database_restart");
    let Some(cluster) = Cluster::start() else { return };
    let database = cluster.server().await.fresh_database().await;
    let mut server = TestServer::on(TestHome::in_database(Some(database))).await;
    let api = Api::of(&server);
    let shared_session = api.create(json!({"name": "shared"})).await;
    let (stop, stopped) = watch::channel(false);
    let (tell, mut told) = mpsc::channel(1024);
    let mut writing = JoinSet::new();
    for writer in Writer::many(writers, &shared_session, &mut random) {
        writing.spawn(write(writer, api.clone(), tell.clone(), stopped.clone()));
    }
    drop(tell);
    let reading = JoinSet::from_iter([watch_log(api.clone(), shared_session.clone(), stopped)]);

    let mut away = 0;
    for crash in 1..=crashes {
        let mut acknowledged = random.random_range(1..writers * 8);
        while acknowledged > 0 {
            match timeout(DEADLINE, told.recv()).await.expect("writers get answers again").unwrap()
            {
                Sent::Acknowledged => acknowledged -= 1,
                Sent::Away => away += 1,
                Sent::Refused | Sent::StillRunning | Sent::Unknown => {}
            }
        }
        eprintln!("crash {crash} of {crashes}");
        if crash % 2 == 1 {
            tokio::task::block_in_place(|| cluster.crash());
            continue;
        }
        tokio::task::block_in_place(|| cluster.stop());
        while timeout(DEADLINE, told.recv()).await.expect("an answer").unwrap() != Sent::Away {}
        away += 1;
        tokio::task::block_in_place(|| cluster.go_on());
    }
    // It works again by itself.
    while timeout(DEADLINE, told.recv()).await.expect("an answer").unwrap() != Sent::Acknowledged {}
    stop.send_replace(true);
    let drained = async { while told.recv().await.is_some() {} };
    let (mut writers, ()) = tokio::join!(writing.join_all(), drained);
    for writer in &mut writers {
        writer.settle(&api).await;
    }

    let seen = reading.join_all().await.into_iter().next().unwrap();
    check(&api, &writers, &shared_session, &seen).await;
    eprintln!("{} acknowledged, {away} told to come back", count(&writers));
    assert!(server.is_running());
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// Writes, and repeats what has no answer, until it is told to stop.
async fn write(
    mut writer: Writer,
    api: Api,
    tell: mpsc::Sender<Sent>,
    stop: watch::Receiver<bool>,
) -> Writer {
    while !*stop.borrow() {
        let sent = writer.step(&api).await;
        assert_ne!(sent, Sent::Unknown, "the server itself does not go away");
        tell.send(sent).await.unwrap();
        if sent == Sent::Away {
            // As a client would; a storm of questions makes nothing come back sooner.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    writer
}

/// Reads the live log, and resumes whenever the stream ends, until it is told to stop.
async fn watch_log(api: Api, session: String, stop: watch::Receiver<bool>) -> Frames {
    let mut seen = Frames::default();
    while !*stop.borrow() {
        let after = seen.ids().last().copied().unwrap_or(0);
        let path = format!("/api/sessions/{session}/events?after={after}");
        let mut stream = eventually("the stream can be opened", async || {
            EventStream::try_open(api.request(Method::GET, &path)).await.ok()
        })
        .await;
        let mut stop = stop.clone();
        loop {
            tokio::select! {
                _ = stop.wait_for(|stopped| *stopped) => break,
                frame = stream.next() => match frame {
                    Some(frame) if frame.id.is_some() => seen.0.push(frame),
                    // The stream's own words about its end have no position.
                    Some(_) => {}
                    None => break,
                },
            }
        }
    }
    seen
}
