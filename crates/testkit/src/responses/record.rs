//! One response while it is made and afterwards, and the conversation that it is part of.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    input,
    plan::{Status, Step},
};

/// A conversation: the items of one side of one turn, and everything before them.
#[derive(Debug, Default)]
pub(super) struct Context {
    pub(super) parent: Option<Arc<Context>>,
    pub(super) items: Vec<Value>,
}

impl Context {
    /// All items, oldest first.
    pub(super) fn visible(&self) -> Vec<&Value> {
        let mut links = vec![self];
        let mut next = self.parent.as_deref();
        while let Some(link) = next {
            links.push(link);
            next = link.parent.as_deref();
        }
        links.iter().rev().flat_map(|link| &link.items).collect()
    }

    pub(super) fn text_bytes(&self) -> usize {
        self.visible().into_iter().map(input::text_bytes).sum()
    }
}

/// Whether the API still knows a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeping {
    Kept,
    /// It can be read, but no longer be continued from.
    Expired,
    Gone,
}

/// How far a response is.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) status: Status,
    pub(super) response: Value,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug)]
pub(super) struct Record {
    pub(super) background: bool,
    /// Whether it was asked for as a stream: only then can a stream of it be taken up again.
    pub(super) streamed: bool,
    /// What the model can see.
    pub(super) input: Arc<Context>,
    /// What the conversation is after it.
    pub(super) output: Arc<Context>,
    pub(super) progress: watch::Sender<Progress>,
    pub(super) stop: CancellationToken,
    keeping: AtomicU8,
}

impl Record {
    pub(super) fn new(
        input: Arc<Context>,
        output: Arc<Context>,
        progress: Progress,
        stop: CancellationToken,
    ) -> Self {
        Self {
            background: false,
            streamed: false,
            input,
            output,
            progress: watch::Sender::new(progress),
            stop,
            keeping: AtomicU8::new(Keeping::Kept as u8),
        }
    }

    pub(super) fn keep(&self, keeping: Keeping) {
        self.keeping.store(keeping as u8, Ordering::SeqCst);
    }

    pub(super) fn is_known(&self) -> bool {
        self.keeping.load(Ordering::SeqCst) != Keeping::Gone as u8
    }

    pub(super) fn is_live_chain(&self) -> bool {
        self.keeping.load(Ordering::SeqCst) == Keeping::Kept as u8
    }

    pub(super) fn status(&self) -> Status {
        self.progress.borrow().status
    }

    pub(super) fn response(&self) -> Value {
        self.progress.borrow().response.clone()
    }

    /// The state and the event that tells it become visible together.
    pub(super) fn push(&self, step: Step) {
        self.progress.send_modify(|progress| {
            if let Some((status, response)) = &step.becomes {
                progress.status = *status;
                progress.response = response.clone();
            }
            progress.steps.push(step);
        });
    }

    /// A final response stays as it is.
    pub(super) fn cancel(&self) {
        self.progress.send_modify(|progress| {
            if !progress.status.is_final() {
                progress.status = Status::Cancelled;
                progress.response["status"] = Status::Cancelled.name().into();
            }
        });
    }

    pub(super) async fn wait_until_final(&self) -> Status {
        let mut progress = self.progress.subscribe();
        // The sender lives as long as `self`.
        let _final = progress.wait_for(|progress| progress.status.is_final()).await.is_ok();
        self.status()
    }
}

/// Stops the model when whoever waits for it has gone.
#[derive(Debug)]
pub(super) struct StopWhenDropped(pub(super) Arc<Record>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.stop.cancel();
    }
}
