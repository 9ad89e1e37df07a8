//! The events of a session as they arrive, each with the moment when it did.

use std::collections::VecDeque;

use anyhow::{Context as _, ensure};
use bytes::BytesMut;
use memchr::memmem;
use serde_json::Value;
use skein_testkit::agent::wall_nanos;
use tokio::{io::AsyncReadExt as _, net::TcpStream};

use crate::{sse::ChunkedDecoder, subject::Server};

const READ_BYTES: usize = 64 * 1024;

/// One event.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) id: u64,
    pub(super) kind: String,
    pub(super) data: String,
    /// On the clock that the scripted agent stamps with.
    pub(super) arrived_nanos: u64,
}

impl Event {
    pub(super) fn json(&self) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.data)?)
    }
}

/// A subscription to a session's log.
pub(super) struct Follower {
    stream: TcpStream,
    received: BytesMut,
    decoder: ChunkedDecoder,
    /// Of an event whose end has not come.
    rest: Vec<u8>,
    events: VecDeque<Event>,
}

impl Follower {
    pub(super) async fn open(server: &Server, path: &str) -> anyhow::Result<Self> {
        let (stream, received) = server.connect().await?.subscribe(path).await?;
        let mut follower = Self {
            stream,
            received,
            decoder: ChunkedDecoder::default(),
            rest: Vec::new(),
            events: VecDeque::new(),
        };
        follower.take_in()?;
        Ok(follower)
    }

    pub(super) async fn next(&mut self) -> anyhow::Result<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            self.received.reserve(READ_BYTES);
            let read = self.stream.read_buf(&mut self.received).await?;
            ensure!(read > 0, "the server closed a stream");
            self.take_in()?;
        }
    }

    fn take_in(&mut self) -> anyhow::Result<()> {
        let arrived_nanos = wall_nanos();
        let rest = &mut self.rest;
        self.decoder.decode(&self.received, |data| rest.extend_from_slice(data))?;
        self.received.clear();
        let mut begin = 0;
        while let Some(length) = memmem::find(&self.rest[begin..], b"\n\n") {
            let lines = std::str::from_utf8(&self.rest[begin..begin + length])?;
            begin += length + 2;
            // Comments keep the connection alive, and are no events.
            if let Some(id) = field(lines, "id: ") {
                self.events.push_back(Event {
                    id: id.parse()?,
                    kind: field(lines, "event: ").context("no kind")?.to_owned(),
                    data: field(lines, "data: ").context("no data")?.to_owned(),
                    arrived_nanos,
                });
            }
        }
        self.rest.drain(..begin);
        Ok(())
    }
}

fn field<'a>(lines: &'a str, name: &str) -> Option<&'a str> {
    lines.lines().find_map(|line| line.strip_prefix(name))
}
