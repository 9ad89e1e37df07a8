//! Requests, replies and notices over an agent's standard input and output.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
};

use super::lines::RpcError;

/// Bytes of lines that wait to be written. Whoever has one more waits with it, the agent's own lines included.
const WAITING_BYTES: usize = 1024 * 1024;
/// Questions of the agent that are open, or whose answers it has not taken. These have room besides the other lines.
pub(super) const MAX_QUESTIONS: usize = 100;
/// Cancellations that the agent has not taken. It can only leave more than one if it answers what it has not read.
const MAX_CANCELLATIONS: usize = 8;

/// Method not found.
const UNKNOWN_METHOD: i64 = -32_601;

type Outcome = Result<Box<RawValue>, RpcError>;

/// Our end of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    lines: mpsc::Sender<Outgoing>,
    room: Arc<Semaphore>,
    questions: Arc<Semaphore>,
    cancellations: Arc<Semaphore>,
    /// `None` once nobody will reply any more.
    waiting: Mutex<Option<HashMap<u64, oneshot::Sender<Outcome>>>>,
    next_id: AtomicU64,
}

/// A line, and the room that it takes until it is written.
#[derive(Debug)]
pub(super) struct Outgoing {
    line: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

/// Room for the answer to one question.
#[derive(Debug)]
pub(super) struct AnswerRoom(OwnedSemaphorePermit);

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
    pub(super) fn new() -> (Self, mpsc::Receiver<Outgoing>) {
        // Every line has its room, so the channel is never full.
        let (lines, receiver) = mpsc::channel(WAITING_BYTES + MAX_QUESTIONS + MAX_CANCELLATIONS);
        let [room, questions, cancellations] = [WAITING_BYTES, MAX_QUESTIONS, MAX_CANCELLATIONS]
            .map(|size| Arc::new(Semaphore::new(size)));
        let (waiting, next_id) = (Mutex::new(Some(HashMap::new())), AtomicU64::new(1));
        (Self { lines, room, questions, cancellations, waiting, next_id }, receiver)
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
        self.write(&line).await?;
        let result = replied.await.map_err(|_| CallError::Gone)?.map_err(CallError::Refused)?;
        serde_json::from_str(result.get())
            .map_err(|error| CallError::Unreadable { method, reason: error.to_string() })
    }

    /// Tells the agent to stop what it does.
    pub(super) fn cancel(&self, params: &impl Serialize) {
        if let Ok(room) = Arc::clone(&self.cancellations).try_acquire_owned() {
            let line = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params});
            self.write_in(room, &line);
        }
    }

    /// Room for the answer to a question; `None` when too many of them are open.
    pub(super) fn answer_room(&self) -> Option<AnswerRoom> {
        Arc::clone(&self.questions).try_acquire_owned().ok().map(AnswerRoom)
    }

    pub(super) fn answer(&self, id: &Value, result: &Value, room: AnswerRoom) {
        self.write_in(room.0, &json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    /// Replies to a request that nobody keeps.
    pub(super) async fn reply(&self, id: &Value, result: &Value) {
        // Nobody waits for it when the agent has gone.
        self.write(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await.ok();
    }

    /// We offer nothing but answers to questions: no files and no terminals.
    pub(super) async fn refuse(&self, id: &Value) {
        let error = json!({"code": UNKNOWN_METHOD, "message": "this client does not offer that"});
        self.write(&json!({"jsonrpc": "2.0", "id": id, "error": error})).await.ok();
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

    async fn write(&self, line: &Value) -> Result<(), CallError> {
        let line = to_line(line);
        let size = u32::try_from(line.len().min(WAITING_BYTES)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(size).await;
        let outgoing = Outgoing { line, _room: room.map_err(|_| CallError::Gone)? };
        self.lines.send(outgoing).await.map_err(|_| CallError::Gone)
    }

    fn write_in(&self, room: OwnedSemaphorePermit, line: &Value) {
        if self.lines.try_send(Outgoing { line: to_line(line), _room: room }).is_err() {
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
    mut lines: mpsc::Receiver<Outgoing>,
) {
    while let Some(outgoing) = lines.recv().await {
        if stdin.write_all(&outgoing.line).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

fn to_line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}
