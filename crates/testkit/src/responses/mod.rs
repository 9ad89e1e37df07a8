//! A strict double of the OpenAI Responses API on a real socket, with state and scripts.
//!
//! It refuses what the API refuses, keeps conversations, numbers its events, goes on in the background, and notes every request.
//! What it says can be scripted, and so can what happens to its connections:
//!
//! ```text
//! let server = ResponsesServer::start().await;
//! server.script(Refusal::status(429).retry_after("0"));
//! server.script(Answer::text("two words").chunk_chars(4).hold_before(5, "middle"));
//! server.script(Script::wire(Wire::CutAfter(6)).when("break"));
//! // … the client under test talks to server.base_url() with server.key() …
//! server.gate("middle").open();
//! assert_eq!(server.dispatches_by("turn"), BTreeMap::from([("t1".to_owned(), 1)]));
//! ```
//!
//! `scripts/responses-double/check` holds it against the official Python client.

mod admin;
mod check;
mod error;
mod gate;
mod input;
mod ledger;
mod plan;
mod record;
mod request;
mod routes;
mod script;
mod state;
#[cfg(test)]
mod tests;
mod wire;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::Value;
use tokio::net::TcpListener;

pub use gate::Gate;
pub use ledger::{Dispatch, RecordedRequest};
pub use plan::Status;
use record::Keeping;
pub use script::{Answer, Ending, Extra, ExtraBlock, Hold, On, Output, Refusal, Script, Wire};
use state::State;

/// What the server remembers of conversations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Chain {
    /// Responses are kept and can be continued from, as at OpenAI.
    #[default]
    Server,
    /// Nothing is kept, and `previous_response_id` has no effect, as with Ollama.
    NoneIgnoring,
    /// Nothing is kept, and a request with `previous_response_id` is refused.
    NoneRejecting,
}

/// How a server is.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Without one, every request is let in.
    pub key: Option<String>,
    pub chain: Chain,
    pub listen: SocketAddr,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            key: Some("sk-double-0123456789".to_owned()),
            chain: Chain::Server,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        }
    }
}

/// A running server. It ends when this is dropped.
#[derive(Debug)]
pub struct ResponsesServer {
    state: Arc<State>,
    address: SocketAddr,
}

impl ResponsesServer {
    /// Like OpenAI, on a free port.
    pub async fn start() -> Self {
        Self::start_with(Settings::default()).await.expect("a free port on the loopback address")
    }

    /// Like Ollama: no key, no memory, `previous_response_id` ignored.
    pub async fn without_memory() -> Self {
        let settings = Settings { key: None, chain: Chain::NoneIgnoring, ..Settings::default() };
        Self::start_with(settings).await.expect("a free port on the loopback address")
    }

    pub async fn start_with(settings: Settings) -> std::io::Result<Self> {
        static SERVERS: AtomicU64 = AtomicU64::new(0);

        let listener = TcpListener::bind(settings.listen).await?;
        let address = listener.local_addr()?;
        // No two servers give the same ids, so that what one has said is unknown to the next.
        let name = (u64::from(std::process::id()) << 32)
            | (u64::from(address.port()) << 16)
            | (SERVERS.fetch_add(1, Ordering::SeqCst) & 0xFFFF);
        let state = Arc::new(State::new(settings, name));
        state.tasks.spawn(accept(listener, Arc::clone(&state)));
        Ok(Self { state, address })
    }

    /// Ends with `/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Empty if the server wants none.
    pub fn key(&self) -> &str {
        self.state.settings.key.as_deref().unwrap_or_default()
    }

    /// Adds a line to the script: a [`Script`], an [`Answer`] or a [`Refusal`].
    pub fn script(&self, script: impl Into<Script>) {
        self.state.queue().push(script.into());
    }

    /// Adds a line, or a list of lines, in the form of `--script` and `POST /_script`.
    pub fn load(&self, script: Value) -> Result<(), serde_json::Error> {
        admin::load(&self.state, script).map(|_queued| ())
    }

    /// How many lines of the script are not used up. Those for ever do not count.
    pub fn scripts_left(&self) -> usize {
        self.state.queue().len()
    }

    /// The gate of this name.
    pub fn gate(&self, name: &str) -> Gate {
        self.state.gate(name)
    }

    /// All requests so far, in the order in which they came.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state.ledger.requests()
    }

    /// Waits until so many requests have come, and returns all.
    pub async fn wait_for_requests(&self, count: usize) -> Vec<RecordedRequest> {
        self.state.ledger.wait_until(|ledger| ledger.request_count() >= count).await;
        self.requests()
    }

    /// The requests that started a model, in their order.
    pub fn dispatches(&self) -> Vec<Dispatch> {
        self.state.ledger.dispatches()
    }

    /// Waits until so many requests have started a model, and returns all.
    pub async fn wait_for_dispatches(&self, count: usize) -> Vec<Dispatch> {
        self.state.ledger.wait_until(|ledger| ledger.dispatch_count() >= count).await;
        self.dispatches()
    }

    /// How often a model was started, by a value of the metadata. Requests without that key are not counted.
    pub fn dispatches_by(&self, metadata_key: &str) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for dispatch in self.dispatches() {
            if let Some(value) = dispatch.metadata(metadata_key) {
                *counts.entry(value.to_owned()).or_default() += 1;
            }
        }
        counts
    }

    /// All items that the model could see when it made this response, oldest first.
    pub fn context_of(&self, response_id: &str) -> Option<Vec<Value>> {
        let record = self.state.record(response_id)?;
        Some(record.input.visible().into_iter().cloned().collect())
    }

    pub fn status_of(&self, response_id: &str) -> Option<Status> {
        self.state.record(response_id).map(|record| record.status())
    }

    /// Waits until a response has ended, in whatever way.
    pub async fn wait_until_final(&self, response_id: &str) -> Option<Status> {
        let record = self.state.record(response_id)?;
        Some(record.wait_until_final().await)
    }

    /// From now on nothing can continue from this response, but it can be read.
    pub fn expire(&self, response_id: &str) {
        self.lose(response_id, Keeping::Expired);
    }

    /// From now on this response is unknown.
    pub fn forget(&self, response_id: &str) {
        self.lose(response_id, Keeping::Gone);
    }

    pub fn forget_all(&self) {
        self.state.keep_all(Keeping::Gone);
    }

    /// Breaks every connection, stops every model, and returns when the port is free.
    pub async fn stop(self) {
        self.state.closing.cancel();
        self.state.tasks.close();
        self.state.tasks.wait().await;
    }

    fn lose(&self, response_id: &str, keeping: Keeping) {
        if let Some(record) = self.state.record(response_id) {
            record.keep(keeping);
        }
    }
}

impl Drop for ResponsesServer {
    fn drop(&mut self) {
        self.state.closing.cancel();
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    let router = routes::router(Arc::clone(&state));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = state.closing.cancelled() => return,
        };
        // What cannot be accepted has gone again.
        if let Ok((stream, _peer)) = accepted {
            let closing = state.closing.clone();
            state.tasks.spawn(wire::serve(stream, router.clone(), closing));
        }
    }
}
