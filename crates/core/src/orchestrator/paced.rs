//! When the events of a running turn are written.

use futures::future::BoxFuture;
use tokio::time::Instant;

use super::{growing::Part, transcript::Transcript};
use crate::{Error, policy::pace::wait_before_write, ports::Committed};

/// At most one write in flight, and none sooner than it is due.
#[derive(Default)]
pub(super) struct PacedWriter<'a> {
    in_flight: Option<BoxFuture<'a, Result<Committed, Error>>>,
    /// Parts of payloads that the write in flight puts.
    parts: Vec<Part>,
    first_text_at: Option<Instant>,
    last_write_at: Option<Instant>,
}

impl<'a> PacedWriter<'a> {
    pub(super) fn is_writing(&self) -> bool {
        self.in_flight.is_some()
    }

    /// When the next write may begin; `None` when there is nothing to write, or one is in flight.
    pub(super) fn due(&mut self, transcript: &Transcript) -> Option<Instant> {
        if self.is_writing() || !transcript.is_due() {
            return None;
        }
        let now = Instant::now();
        let first = *self.first_text_at.get_or_insert(now);
        if transcript.urgent() > 0 {
            return Some(now);
        }
        let wait = wait_before_write(
            now - first,
            self.last_write_at.map(|last| now - last),
            transcript.unwritten_bytes(),
        );
        Some(now + wait)
    }

    pub(super) fn begin(
        &mut self,
        parts: Vec<Part>,
        write: BoxFuture<'a, Result<Committed, Error>>,
    ) {
        self.last_write_at = Some(Instant::now());
        self.parts = parts;
        self.in_flight = Some(write);
    }

    pub(super) async fn written(&mut self) -> Result<Committed, Error> {
        match &mut self.in_flight {
            Some(write) => {
                let written = write.await;
                self.in_flight = None;
                self.parts.clear();
                written
            }
            None => std::future::pending().await,
        }
    }

    /// Waits for the write in flight: what follows must come after it.
    pub(super) async fn settle(&mut self) {
        if self.is_writing() {
            drop(self.written().await);
        }
    }

    /// Gives the write in flight up. Whether its parts are stored is not known; putting them again does no harm.
    pub(super) fn give_up(self) -> Vec<Part> {
        self.parts
    }
}
