//! W9: one producer, many subscribers.

use std::{
    cell::RefCell,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use bytes::BytesMut;
use futures::future::try_join_all;
use tokio::{net::TcpStream, time::timeout_at};

use crate::{
    arguments::RunArguments,
    process::{Meter, Used},
    report::{Report, Target, median, milliseconds},
    sse::{ChunkedDecoder, DeltaCounter},
    subject::{Home, Server, Subject, create_session},
};

/// One buffer for all subscribers, so that the client's reads stay in the processor's cache.
const BUFFER_BYTES: usize = 256 * 1024;

struct Round {
    frames: usize,
    elapsed: Duration,
    used: Used,
}

impl Round {
    fn frames_per_second(&self) -> f64 {
        self.frames as f64 / self.elapsed.as_secs_f64()
    }
}

pub(crate) async fn measure(arguments: &RunArguments, report: &mut Report) -> anyhow::Result<()> {
    let mut rounds: [Vec<Round>; 2] = Default::default();
    for round in 0..arguments.rounds {
        for (index, subject) in Subject::BOTH.into_iter().enumerate() {
            let measured = w9_round(arguments, subject).await?;
            eprintln!(
                "W9 {} round {}: {} distinct frames in {:.0} ms, {:.0}/s, server {:.0} ms, client {:.0} ms, others used {:.2} processors",
                subject.name(),
                round + 1,
                measured.frames,
                milliseconds(measured.elapsed),
                measured.frames_per_second(),
                milliseconds(measured.used.server),
                milliseconds(measured.used.client),
                measured.used.other_processors,
            );
            rounds[index].push(measured);
        }
    }
    let of = |rounds: &[Round], measure: fn(&Round) -> f64| {
        median(&rounds.iter().map(measure).collect::<Vec<_>>())
    };
    let [skein, limit] = &rounds;
    let frames = Round::frames_per_second;
    let speeds = (of(skein, frames), Some(of(limit, frames)));
    let name = format!("distinct frames/s to {} subscribers", arguments.subscribers);
    report.judged("W9", &name, speeds, Target::AtLeast(150_000.0));
    let elapsed = |round: &Round| milliseconds(round.elapsed);
    let name = format!("ms, {} chunks of 200 B", arguments.chunks);
    report.costs("W9", &name, of(skein, elapsed), of(limit, elapsed));
    let cpu = |round: &Round| milliseconds(round.used.server);
    report.costs("W9", "server CPU ms", of(skein, cpu), of(limit, cpu));
    let others = rounds.iter().flatten().map(|round| round.used.other_processors);
    report.others("W9", others.collect());
    Ok(())
}

/// The time runs from the moment the prompt is sent, which is before the first chunk exists, to the last
/// subscriber's last frame.
async fn w9_round(arguments: &RunArguments, subject: Subject) -> anyhow::Result<Round> {
    let home = Home::new(arguments)?;
    let server = Server::start(arguments, subject, &home).await?;
    let mut connection = server.connect().await?;
    let session = create_session(&mut connection, "stream").await?;
    let path = format!("/api/sessions/{session}/events?after=0");
    let mut subscribers = Vec::new();
    for _ in 0..arguments.subscribers {
        let (stream, received) = server.connect().await?.subscribe(&path).await?;
        subscribers.push(Subscriber::new(stream, received)?);
    }
    let deadline = tokio::time::Instant::now() + Duration::from_secs(arguments.cap_seconds);
    let buffer = RefCell::new(vec![0; BUFFER_BYTES]);
    let meter = Meter::start(server.pid)?;
    let sent_at = Instant::now();
    let prompt = format!("/api/sessions/{session}/prompt");
    connection.post(&prompt, br#"{"text":"stream"}"#).await?;
    let reading =
        subscribers.iter_mut().map(|subscriber| subscriber.read(arguments.chunks, &buffer));
    let finished = timeout_at(deadline, try_join_all(reading)).await;
    let last = finished.context("not all frames arrived in time")??.into_iter().max();
    let used = meter.stop()?;
    let elapsed = last.context("no subscribers")? - sent_at;
    let frames = subscribers.iter().map(|subscriber| subscriber.counter.distinct()).sum();
    ensure!(frames == arguments.chunks * arguments.subscribers, "{frames} distinct frames");
    drop(subscribers);
    server.stop().await?;
    Ok(Round { frames, elapsed, used })
}

struct Subscriber {
    stream: TcpStream,
    decoder: ChunkedDecoder,
    counter: DeltaCounter,
}

impl Subscriber {
    fn new(stream: TcpStream, received: BytesMut) -> anyhow::Result<Self> {
        let (mut decoder, mut counter) = (ChunkedDecoder::default(), DeltaCounter::default());
        decoder.decode(&received, |data| counter.add(data))?;
        Ok(Self { stream, decoder, counter })
    }

    /// Reads until so many distinct frames have come; gives the moment when the last one did.
    async fn read(&mut self, frames: usize, buffer: &RefCell<Vec<u8>>) -> anyhow::Result<Instant> {
        while self.counter.distinct() < frames {
            self.stream.readable().await?;
            let mut buffer = buffer.borrow_mut();
            match self.stream.try_read(&mut buffer) {
                Ok(0) => anyhow::bail!("the server closed a stream"),
                Ok(read) => {
                    let counter = &mut self.counter;
                    self.decoder.decode(&buffer[..read], |data| counter.add(data))?;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Instant::now())
    }
}
