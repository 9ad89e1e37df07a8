//! A running agent: listens to it for as long as it lives.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agent_client_protocol::v1::schema::{
    CancelNotification, RequestPermissionRequest, SessionUpdate,
};
use futures::{FutureExt, future::BoxFuture, stream::BoxStream};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use skein_core::{
    model::{FailureCode, TurnId},
    ports::{AgentUpdate, PermissionAsk, ResidentAgent, RunRequest, RuntimeFailure},
};
use tokio::{
    io::{AsyncRead, BufReader},
    sync::{Mutex as AsyncMutex, watch},
    time::{Instant, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    connection::{AnswerRoom, Connection},
    lines::{Line, MAX_LINE_BYTES, Said, next_line, read},
    prompting,
    redaction::Redaction,
    stderr::LastWords,
    updates,
    waiting::Updates,
};
use crate::confine::{Cage, Exit};

/// Bad lines in one turn, after which the agent is not believed to speak the protocol.
const MAX_GARBAGE: u32 = 1_000;
/// After it has closed its output, an agent has this long to end.
const LAST_BREATH: Duration = Duration::from_secs(2);
/// How long an agent that is to end may take over its running prompt, and then over itself.
const END_OF_PROMPT: Duration = Duration::from_secs(2);
pub(super) const AFTER_SIGTERM: Duration = Duration::from_millis(2_500);

/// An agent with its session open.
pub(super) struct AcpAgent {
    pub(super) shared: Arc<Shared>,
    pub(super) provider_session_id: String,
    pub(super) shortcomings: Vec<String>,
    /// For the first prompt: what its session has lost.
    pub(super) notice: Mutex<Option<String>>,
    pub(super) turn_timeout: Duration,
}

/// What the tasks around an agent share.
pub(super) struct Shared {
    pub(super) connection: Connection,
    pub(super) cage: Cage,
    pub(super) tasks: TaskTracker,
    pub(super) redaction: Redaction,
    pub(super) last_words: LastWords,
    /// The agent's name of its session, once it is open.
    pub(super) session: OnceLock<String>,
    /// Held while a prompt is open at the agent.
    pub(super) prompting: Arc<AsyncMutex<()>>,
    current: Mutex<Option<Current>>,
    questions: Mutex<HashMap<String, Question>>,
    /// Updates so far, wanted or not.
    updates_seen: AtomicU64,
    last_heard_at: Mutex<Instant>,
    /// Why it was ended, when it was.
    pub(super) ended_for: OnceLock<RuntimeFailure>,
    end: watch::Sender<Option<RuntimeFailure>>,
}

/// The prompt that is open at the agent.
struct Current {
    turn: TurnId,
    updates: Updates,
    asked: u32,
    /// Questions that were called off because too many were open.
    surplus: u32,
    garbage: u32,
    /// What comes after the agent's answer belongs to no turn, however soon it comes.
    is_answered: bool,
    /// Whether somebody refused what the agent asked for.
    is_refused: bool,
    /// Fires when the agent breaks the protocol beyond what is borne.
    broken: Arc<OnceLock<String>>,
    breaks: CancellationToken,
}

/// What is known of a prompt when it has ended.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) garbage: u32,
    pub(super) surplus: u32,
    pub(super) is_refused: bool,
}

/// A question that waits at the agent.
struct Question {
    id: Value,
    /// Options that refuse.
    refusing: Vec<String>,
    room: AnswerRoom,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notification<'a> {
    session_id: String,
    #[serde(borrow)]
    update: &'a RawValue,
}

impl Shared {
    pub(super) fn new(
        (connection, cage): (Connection, Cage),
        tasks: TaskTracker,
        redaction: Redaction,
    ) -> Self {
        Self {
            connection,
            cage,
            tasks,
            redaction,
            last_words: LastWords::default(),
            session: OnceLock::new(),
            prompting: Arc::default(),
            current: Mutex::default(),
            questions: Mutex::default(),
            updates_seen: AtomicU64::new(0),
            last_heard_at: Mutex::new(Instant::now()),
            ended_for: OnceLock::new(),
            end: watch::Sender::new(None),
        }
    }

    /// Reads what the agent writes until it ends, then makes its end known.
    pub(super) async fn listen(self: Arc<Self>, stdout: impl AsyncRead + Unpin) {
        let mut input = BufReader::with_capacity(64 * 1024, stdout);
        loop {
            match next_line(&mut input).await {
                Ok(Line::Whole(line)) => self.take(&line).await,
                Ok(Line::TooLong) => {
                    self.give_up(format!(
                        "the agent wrote a line of more than {MAX_LINE_BYTES} bytes"
                    ));
                }
                Ok(Line::End) | Err(_) => break,
            }
        }
        if timeout(LAST_BREATH, self.cage.exited()).await.is_err() {
            self.cage.kill();
        }
        let exit = self.cage.exited().await;
        self.last_words.whole().await;
        self.end.send_replace(Some(self.why(exit)));
        self.connection.close();
    }

    async fn take(&self, line: &[u8]) {
        match read(line) {
            Said::Notification { method, params } if method == "session/update" => {
                self.take_update(&params).await;
            }
            // Every agent has some of its own, which the protocol allows by these names.
            Said::Notification { method, .. } if method.starts_with(['_', '$']) => {}
            Said::Notification { .. } => self.count_garbage(),
            Said::Request { id, method, params } if method == "session/request_permission" => {
                self.take_question(id, &params).await;
            }
            Said::Request { id, method, .. } => {
                tracing::debug!(method, "an agent asks for what is not offered");
                self.connection.refuse(&id).await;
                self.count_garbage();
            }
            Said::Reply { id, outcome } => {
                // While a prompt is open, nothing else is asked of the agent.
                match self.connection.settle(&id, outcome) {
                    true => self.current().iter_mut().for_each(|open| open.is_answered = true),
                    false => self.count_garbage(),
                }
            }
            Said::Garbage => self.count_garbage(),
        }
    }

    /// Only what comes while a prompt of ours is open belongs to a turn: agents replay history when they load it.
    async fn take_update(&self, params: &RawValue) {
        self.updates_seen.fetch_add(1, Ordering::Relaxed);
        *lock(&self.last_heard_at) = Instant::now();
        let Ok(notification) = serde_json::from_str::<Notification<'_>>(params.get()) else {
            return self.count_garbage();
        };
        if !self.is_ours(&notification.session_id) {
            return;
        }
        // Kinds that are newer than this are left alone.
        let update = serde_json::from_str::<SessionUpdate>(notification.update.get()).ok();
        let Some(update) = update.and_then(updates::translate) else { return };
        let updates = {
            let current = self.current();
            let open = current.as_ref().filter(|current| !current.is_answered);
            open.map(|current| current.updates.clone())
        };
        if let Some(updates) = updates {
            updates.send_in_pieces(update, params.get().len()).await;
        }
    }

    async fn take_question(&self, id: Value, params: &RawValue) {
        let Ok(request) = serde_json::from_str::<RequestPermissionRequest>(params.get()) else {
            self.connection.reply(&id, &called_off()).await;
            return self.count_garbage();
        };
        let is_ours = self.is_ours(&request.session_id.to_string());
        let (tool, options) = updates::asked(request);
        let refusing = options.iter().filter(|option| option.kind.starts_with("reject"));
        let refusing = refusing.map(|option| option.option_id.clone()).collect();
        let kept = if is_ours { self.keep_question(&id, refusing) } else { None };
        let Some((request_id, updates)) = kept else {
            return self.connection.reply(&id, &called_off()).await;
        };
        let ask = PermissionAsk { request_id, tool, options, decided: None };
        updates.send(AgentUpdate::Permission(Box::new(ask)), params.get().len()).await;
    }

    /// A turn's questions are numbered, so that their ids are unique in the session. `None` when nobody is to be asked.
    fn keep_question(&self, id: &Value, refusing: Vec<String>) -> Option<(String, Updates)> {
        let mut current = self.current();
        let current = current.as_mut().filter(|current| !current.is_answered)?;
        let Some(room) = self.connection.answer_room() else {
            current.surplus += 1;
            current.is_refused = true;
            return None;
        };
        current.asked += 1;
        let request_id = format!("{}.{}", current.turn, current.asked);
        let question = Question { id: id.clone(), refusing, room };
        lock(&self.questions).insert(request_id.clone(), question);
        Some((request_id, current.updates.clone()))
    }

    pub(super) fn answer(&self, request_id: &str, option_id: Option<String>) {
        let Some(question) = lock(&self.questions).remove(request_id) else { return };
        let is_refused = option_id.as_ref().is_none_or(|option| question.refusing.contains(option));
        if let Some(current) = self.current().as_mut() {
            current.is_refused |= is_refused;
        }
        let outcome = match option_id {
            Some(option_id) => json!({"outcome": {"outcome": "selected", "optionId": option_id}}),
            None => called_off(),
        };
        self.connection.answer(&question.id, &outcome, question.room);
    }

    /// From now on updates belong to this turn. The token fires when the agent breaks the protocol too often.
    pub(super) fn begin(
        &self,
        turn: TurnId,
        updates: Updates,
    ) -> (CancellationToken, Arc<OnceLock<String>>) {
        let (breaks, broken) = (CancellationToken::new(), Arc::new(OnceLock::new()));
        *self.current() = Some(Current {
            turn,
            updates,
            asked: 0,
            surplus: 0,
            garbage: 0,
            is_answered: false,
            is_refused: false,
            broken: Arc::clone(&broken),
            breaks: breaks.clone(),
        });
        (breaks, broken)
    }

    /// The prompt is no longer open, or nobody cares for it.
    pub(super) fn finish(&self) -> Ended {
        let current = self.current().take();
        for (_, question) in lock(&self.questions).drain() {
            self.connection.answer(&question.id, &called_off(), question.room);
        }
        current.map_or_else(Ended::default, |current| Ended {
            garbage: current.garbage,
            surplus: current.surplus,
            is_refused: current.is_refused,
        })
    }

    /// Calls off the open prompt.
    pub(super) fn cancel(&self) {
        if let Some(session) = self.session.get() {
            self.connection.cancel(&CancelNotification::new(session.clone()));
        }
    }

    /// How many updates have come so far.
    pub(super) fn updates_seen(&self) -> u64 {
        self.updates_seen.load(Ordering::Relaxed)
    }

    pub(super) fn ended(&self) -> BoxFuture<'static, RuntimeFailure> {
        let mut end = self.end.subscribe();
        async move {
            let ended = end.wait_for(Option::is_some).await;
            let failure = ended.ok().and_then(|end| end.clone());
            failure.unwrap_or_else(|| exited("the agent is gone".to_owned()))
        }
        .boxed()
    }

    /// SIGTERM, and after a while SIGKILL to everything that is left.
    pub(super) async fn put_down(&self) {
        self.cage.terminate();
        if timeout(AFTER_SIGTERM, self.cage.exited()).await.is_err() {
            self.cage.kill();
            self.cage.exited().await;
        }
    }

    fn count_garbage(&self) {
        let count = match self.current().as_mut() {
            Some(current) => {
                current.garbage += 1;
                current.garbage
            }
            None => 0,
        };
        if count > MAX_GARBAGE {
            self.give_up(format!(
                "the agent wrote more than {MAX_GARBAGE} lines that are not its protocol"
            ));
        }
    }

    /// The turn cannot go on with this agent.
    fn give_up(&self, reason: String) {
        if let Some(current) = self.current().as_ref() {
            current.broken.get_or_init(|| reason);
            current.breaks.cancel();
        }
    }

    fn is_ours(&self, session: &str) -> bool {
        self.session.get().is_some_and(|ours| ours == session)
    }

    fn why(&self, exit: Exit) -> RuntimeFailure {
        if let Some(failure) = self.ended_for.get() {
            return failure.clone();
        }
        let how = match exit {
            Exit::Code(code) => format!("the agent exited with status {code}"),
            Exit::Signal(signal) => format!("the agent was ended by signal {signal}"),
            Exit::Unknown => "the agent is gone".to_owned(),
        };
        let words = self.redaction.apply(&self.last_words.text());
        exited(if words.is_empty() { how } else { format!("{how}: {words}") })
    }

    fn current(&self) -> MutexGuard<'_, Option<Current>> {
        lock(&self.current)
    }
}

impl ResidentAgent for AcpAgent {
    fn provider_session_id(&self) -> &str {
        &self.provider_session_id
    }

    fn shortcomings(&self) -> &[String] {
        &self.shortcomings
    }

    fn last_heard_at(&self) -> Instant {
        *lock(&self.shared.last_heard_at)
    }

    fn prompt(&self, request: RunRequest) -> BoxStream<'static, AgentUpdate> {
        let notice = lock(&self.notice).take();
        prompting::prompt(&self.shared, request, self.turn_timeout, notice)
    }

    fn answer(&self, request_id: &str, option_id: Option<String>) {
        self.shared.answer(request_id, option_id);
    }

    fn ended(&self) -> BoxFuture<'static, RuntimeFailure> {
        self.shared.ended()
    }

    fn end(&self) -> BoxFuture<'static, ()> {
        let shared = Arc::clone(&self.shared);
        async move {
            let message = "the agent was stopped".to_owned();
            let stopped = RuntimeFailure { code: FailureCode::Interrupted, message };
            shared.ended_for.get_or_init(|| stopped);
            // Document C wants an agent to be told, also one that has nothing to do.
            shared.cancel();
            if shared.prompting.try_lock().is_err() {
                drop(timeout(END_OF_PROMPT, shared.prompting.lock()).await);
            }
            shared.put_down().await;
        }
        .boxed()
    }
}

impl Drop for AcpAgent {
    fn drop(&mut self) {
        self.shared.cage.kill();
    }
}

pub(super) fn exited(message: String) -> RuntimeFailure {
    RuntimeFailure { code: FailureCode::AgentExited, message }
}

fn called_off() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
