//! Server-sent events, byte for byte.

use reqwest::{RequestBuilder, StatusCode};
use serde_json::Value;
use tokio::time::timeout;

use super::DEADLINE;

/// A stream of events that is being read.
#[derive(Debug)]
pub(crate) struct EventStream {
    response: reqwest::Response,
    unread: Vec<u8>,
}

/// One event as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// All of its lines, and the empty line that ends it.
    pub(crate) raw: String,
    pub(crate) id: Option<u64>,
    pub(crate) event: String,
    pub(crate) data: String,
}

/// Events one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Frames(pub(crate) Vec<Frame>);

impl EventStream {
    pub(crate) async fn open(request: RequestBuilder) -> Self {
        Self::try_open(request).await.unwrap_or_else(|error| panic!("no stream: {error:?}"))
    }

    /// An error when there is no connection or the store is away; anything else but a stream fails the test.
    pub(crate) async fn try_open(request: RequestBuilder) -> reqwest::Result<Self> {
        let response = request.header("accept", "text/event-stream").send().await?;
        let status = response.status();
        let media_type = response.headers().get("content-type").cloned();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.error_for_status_ref()?;
        }
        if !status.is_success() {
            panic!("{status} instead of a stream: {}", response.text().await.unwrap_or_default());
        }
        let media_type = media_type.as_ref().and_then(|value| value.to_str().ok());
        assert!(media_type.is_some_and(|name| name.starts_with("text/event-stream")));
        Ok(Self { response, unread: Vec::new() })
    }

    /// The next event; pings are skipped. `None` when the stream has ended, also by a broken connection.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            while let Some(frame) = self.take_frame() {
                if !frame.data.is_empty() {
                    return Some(frame);
                }
            }
            if !self.read_more().await {
                return None;
            }
        }
    }

    /// Reads one piece from the network. `false` when the stream has ended.
    pub(crate) async fn read_more(&mut self) -> bool {
        self.read_at_most(usize::MAX).await.is_some()
    }

    /// As [`Self::read_more`]; what is beyond so many bytes is lost, as when a connection is cut there.
    pub(crate) async fn read_at_most(&mut self, bytes: usize) -> Option<usize> {
        let piece = timeout(DEADLINE, self.response.chunk()).await;
        match piece.unwrap_or_else(|_| panic!("nothing on the stream for {DEADLINE:?}")) {
            Ok(Some(piece)) => {
                let taken = piece.len().min(bytes);
                self.unread.extend_from_slice(&piece[..taken]);
                Some(taken)
            }
            Ok(None) | Err(_) => None,
        }
    }

    /// A whole event of what was read, pings included.
    pub(crate) fn take_frame(&mut self) -> Option<Frame> {
        let end = self.unread.windows(2).position(|pair| pair == b"\n\n")? + 2;
        let raw: Vec<u8> = self.unread.drain(..end).collect();
        Some(Frame::parse(String::from_utf8(raw).unwrap()))
    }

    /// Everything up to the first event that fits, that one included.
    pub(crate) async fn until(&mut self, fits: impl Fn(&Frame) -> bool) -> Frames {
        let mut frames = Frames::default();
        let reading = async {
            while let Some(frame) = self.next().await {
                let found = fits(&frame);
                frames.0.push(frame);
                if found {
                    return true;
                }
            }
            false
        };
        let found = timeout(DEADLINE, reading).await;
        assert_eq!(
            found,
            Ok(true),
            "the stream ended, or took too long, after {:?}",
            frames.types()
        );
        frames
    }

    /// Everything up to this position.
    pub(crate) async fn through(&mut self, seq: u64) -> Frames {
        self.until(|frame| frame.id == Some(seq)).await
    }

    /// Everything until the server ends the stream.
    pub(crate) async fn rest(&mut self) -> Frames {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        Frames(frames)
    }
}

impl Frame {
    fn parse(raw: String) -> Self {
        let mut frame = Self { id: None, event: String::new(), data: String::new(), raw };
        for line in frame.raw.lines() {
            match line.split_once(": ") {
                Some(("id", id)) => frame.id = Some(id.parse().unwrap()),
                Some(("event", event)) => frame.event = event.to_owned(),
                Some(("data", data)) => frame.data = data.to_owned(),
                _ => {}
            }
        }
        frame
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

impl Frames {
    pub(crate) fn types(&self) -> Vec<&str> {
        self.0.iter().map(|frame| frame.event.as_str()).collect()
    }

    pub(crate) fn ids(&self) -> Vec<u64> {
        self.0.iter().filter_map(|frame| frame.id).collect()
    }

    /// The bytes as they came.
    pub(crate) fn raw(&self) -> String {
        self.0.iter().map(|frame| frame.raw.as_str()).collect()
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        self.0.iter().map(Frame::json).collect()
    }
}
