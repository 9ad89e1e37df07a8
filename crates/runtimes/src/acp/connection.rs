//! Requests, replies and notices over an agent's standard input and output.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::{mpsc, oneshot},
};

use super::lines::RpcError;

/// Lines that wait to be written; an agent that reads none of them does not listen.
const WAITING_LINES: usize = 256;

/// Method not found.
const UNKNOWN_METHOD: i64 = -32_601;

type Outcome = Result<Box<RawValue>, RpcError>;

/// Our end of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    lines: mpsc::Sender<Vec<u8>>,
    /// `None` once nobody will reply any more.
    waiting: Mutex<Option<HashMap<u64, oneshot::Sender<Outcome>>>>,
    next_id: AtomicU64,
}

/// Why a request has no result.
#[derive(Debug)]
pub(super) enum CallError {
    Refused(RpcError),
    /// The result is not what the protocol says.
    Unreadable {
        method: &'static str,
        reason: String,
    },
    /// The agent has gone.
    Gone,
}

impl Connection {
    /// The connection, and what is to be written to the agent.
    pub(super) fn new() -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (lines, receiver) = mpsc::channel(WAITING_LINES);
        let waiting = Mutex::new(Some(HashMap::new()));
        (Self { lines, waiting, next_id: AtomicU64::new(1) }, receiver)
    }

    /// Asks, and waits for the result as long as the agent lives.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &impl Serialize,
    ) -> Result<T, CallError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (reply, replied) = oneshot::channel();
        match self.waiting().as_mut() {
            Some(waiting) => drop(waiting.insert(id, reply)),
            None => return Err(CallError::Gone),
        }
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.lines.send(to_line(&line)).await.map_err(|_| CallError::Gone)?;
        let result = replied.await.map_err(|_| CallError::Gone)?.map_err(CallError::Refused)?;
        serde_json::from_str(result.get())
            .map_err(|error| CallError::Unreadable { method, reason: error.to_string() })
    }

    /// Tells something that has no reply. An agent that takes no lines any more is not waited for.
    pub(super) fn notify(&self, method: &'static str, params: &impl Serialize) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub(super) fn reply(&self, id: &Value, result: &Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    /// We offer nothing but answers to questions: no files and no terminals.
    pub(super) fn refuse(&self, id: &Value, method: &str) {
        let message = format!("{method} is not offered by this client");
        let error = json!({"code": UNKNOWN_METHOD, "message": message});
        self.write(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }

    /// Hands a reply to whoever asked. `false` when nobody did.
    pub(super) fn settle(&self, id: &Value, outcome: Outcome) -> bool {
        let asked = id.as_u64().and_then(|id| self.waiting().as_mut()?.remove(&id));
        match asked {
            // Nobody minds when the one who asked has stopped waiting.
            Some(asked) => {
                drop(asked.send(outcome));
                true
            }
            None => false,
        }
    }

    /// Whoever waits for a reply learns that there will be none.
    pub(super) fn close(&self) {
        drop(self.waiting().take());
    }

    fn write(&self, line: &Value) {
        if self.lines.try_send(to_line(line)).is_err() {
            tracing::debug!("an agent takes no more lines");
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Option<HashMap<u64, oneshot::Sender<Outcome>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes lines until the agent takes no more, or nobody has any.
pub(super) async fn write_lines(
    mut stdin: impl AsyncWrite + Unpin,
    mut lines: mpsc::Receiver<Vec<u8>>,
) {
    while let Some(line) = lines.recv().await {
        if stdin.write_all(&line).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

fn to_line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}
