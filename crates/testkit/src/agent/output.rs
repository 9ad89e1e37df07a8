//! The agent's standard output: messages of JSON-RPC, and its own requests that wait for their answers.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher, RandomState},
    io::{Write as _, stdout},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::{Value, json};
use tokio::{sync::oneshot, task::block_in_place};

use super::options::Ids;

/// Everything that goes out, one line after the other.
#[derive(Debug)]
pub(super) struct Output {
    /// Whether each answer is written twice.
    twice: bool,
    ids: Ids,
    asked: Mutex<Asked>,
}

/// What was asked of the client.
#[derive(Debug, Default)]
struct Asked {
    count: u64,
    waiting: HashMap<String, oneshot::Sender<Value>>,
}

impl Output {
    pub(super) fn new(ids: Ids, twice: bool) -> Self {
        Self { twice, ids, asked: Mutex::default() }
    }

    /// Bytes as they are. Nobody may listen any more, which is not an error of the agent.
    pub(super) fn raw(&self, bytes: &[u8]) {
        block_in_place(|| {
            let mut stdout = stdout().lock();
            let _written = stdout.write_all(bytes);
            let _flushed = stdout.flush();
        });
    }

    pub(super) fn message(&self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes());
    }

    pub(super) fn answer(&self, id: &Value, result: Value) {
        self.reply(json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    pub(super) fn refuse(&self, id: &Value, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        self.reply(json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }

    pub(super) fn notify(&self, method: &str, params: Value) {
        self.message(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub(super) fn update(&self, session: &str, update: Value) {
        self.notify("session/update", json!({"sessionId": session, "update": update}));
    }

    /// Asks the client. `None` when there will be no answer.
    pub(super) async fn ask(&self, method: &str, params: Value) -> Option<Value> {
        let (sender, receiver) = oneshot::channel();
        let id = self.register(sender);
        self.message(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        receiver.await.ok()
    }

    /// Gives an answer of the client to whoever waits for it.
    pub(super) fn answered(&self, id: &Value, answer: Value) {
        let waiting = self.lock().waiting.remove(&id.to_string());
        if let Some(waiting) = waiting {
            let _heard = waiting.send(answer);
        }
    }

    fn reply(&self, message: Value) {
        self.message(&message);
        if self.twice {
            self.message(&message);
        }
    }

    fn register(&self, sender: oneshot::Sender<Value>) -> Value {
        let mut asked = self.lock();
        let id = match self.ids {
            Ids::Numbers => json!(asked.count),
            Ids::Uuids => json!(fresh_id()),
        };
        asked.count += 1;
        asked.waiting.insert(id.to_string(), sender);
        id
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A random UUID.
pub(super) fn fresh_id() -> String {
    let half = || RandomState::new().build_hasher().finish();
    let (high, low) = (half(), half());
    let bytes = ((u128::from(high) << 64) | u128::from(low)).to_be_bytes();
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}
