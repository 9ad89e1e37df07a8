//! What came in, for the test to look at.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use axum::http::request::Parts;
use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

/// A request as it came in. Refused ones are here too; those of the scripting routes are not.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedRequest {
    pub method: String,
    pub path: String,
    pub query: Option<String>,
    /// Names in lower case; the key is replaced by `[redacted]`.
    pub headers: BTreeMap<String, String>,
    /// The exact bytes.
    pub body: Bytes,
    /// The body, if it is JSON.
    pub json: Option<Value>,
    /// Not there while, or if, there was no reply.
    pub status: Option<u16>,
}

/// A request that started a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatch {
    pub response_id: String,
    pub body: Value,
}

impl Dispatch {
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.body["metadata"][key].as_str()
    }
}

#[derive(Debug)]
pub(super) struct Ledger {
    entries: Mutex<Entries>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Entries {
    requests: Vec<RecordedRequest>,
    dispatches: Vec<Dispatch>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { entries: Mutex::default(), changed: watch::Sender::new(()) }
    }
}

impl Ledger {
    /// Notes a request and returns its place.
    pub(super) fn record(&self, parts: &Parts, body: &Bytes) -> usize {
        let headers = parts.headers.iter().map(|(name, value)| {
            let shown = if name == "authorization" {
                "Bearer [redacted]".to_owned()
            } else {
                String::from_utf8_lossy(value.as_bytes()).into_owned()
            };
            (name.as_str().to_owned(), shown)
        });
        let request = RecordedRequest {
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().map(str::to_owned),
            headers: headers.collect(),
            body: body.clone(),
            json: serde_json::from_slice(body).ok(),
            status: None,
        };
        let mut entries = self.entries();
        entries.requests.push(request);
        let place = entries.requests.len() - 1;
        drop(entries);
        self.changed.send_replace(());
        place
    }

    pub(super) fn answered(&self, place: usize, status: u16) {
        self.entries().requests[place].status = Some(status);
        self.changed.send_replace(());
    }

    pub(super) fn dispatched(&self, dispatch: Dispatch) {
        self.entries().dispatches.push(dispatch);
        self.changed.send_replace(());
    }

    pub(super) fn requests(&self) -> Vec<RecordedRequest> {
        self.entries().requests.clone()
    }

    pub(super) fn dispatches(&self) -> Vec<Dispatch> {
        self.entries().dispatches.clone()
    }

    /// Waits until something is as the test wants it.
    pub(super) async fn wait_until(&self, wanted: impl Fn(&Self) -> bool) {
        let mut changes = self.changed.subscribe();
        while !wanted(self) {
            // The sender lives as long as `self`.
            let _changed = changes.changed().await;
        }
    }

    pub(super) fn request_count(&self) -> usize {
        self.entries().requests.len()
    }

    pub(super) fn dispatch_count(&self) -> usize {
        self.entries().dispatches.len()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
