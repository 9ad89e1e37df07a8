//! The protocol: requests in, answers out, and a task for each prompt.

use std::{
    collections::HashMap,
    io::{BufRead as _, Write as _, stdin},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    detach::{Pipes, detach},
    journal::Journal,
    memory::{Conversation, Memory},
    misbehave::{chatter, end, flood, garbage, long_line},
    options::{Garbage, Options, Point, Replay},
    output::{Output, fresh_id},
    turn::{LOOK, Turn},
};

/// Between SIGTERM and the end.
const TIDYING: Duration = Duration::from_millis(200);

/// What all tasks of the process share.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) options: Options,
    pub(super) output: Output,
    pub(super) journal: Journal,
    memory: Memory,
    sessions: Mutex<HashMap<String, Live>>,
    /// Nothing is heard until this file is there.
    pub(super) deaf_until: Mutex<Option<PathBuf>>,
}

/// A session of this process.
#[derive(Debug)]
struct Live {
    conversation: Conversation,
    /// Ends the prompt that is under way.
    cancel: CancellationToken,
}

/// What a prompt goes on from, and what ends it.
type Begun = (Conversation, CancellationToken);

/// Serves until standard input ends, or the process does something else that ends it.
pub async fn serve(options: Options, home: PathBuf) {
    let memory = if options.forget { Memory::none() } else { Memory::in_home(&home) };
    let output = Output::new(options.ids, options.does(Garbage::Twice));
    let journal = Journal::open(options.journal.as_deref());
    let (sessions, deaf_until) = (Mutex::default(), Mutex::default());
    let agent = Arc::new(Agent { options, output, journal, memory, sessions, deaf_until });
    let tasks = TaskTracker::new();

    agent.journal.note(&json!({"started": std::process::id()}));
    tasks.spawn(agent.clone().watch_signals());
    agent.begin();

    let mut lines = read_lines();
    while let Some(line) = lines.recv().await {
        agent.until_it_hears().await;
        if let Ok(message) = serde_json::from_str::<Value>(&line) {
            agent.journal.note(&json!({"received": message}));
            agent.clone().receive(message, &tasks).await;
        }
    }
    agent.journal.note(&json!({"eof": true}));
    if agent.options.ignore_eof {
        std::future::pending::<()>().await;
    }
}

/// A thread of its own reads, and ends with its input.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(64);
    std::thread::spawn(move || {
        for line in stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Agent {
    /// What it does before it is asked anything.
    fn begin(&self) {
        if let Some(text) = &self.options.stderr {
            self.complain(text);
        }
        for (count, pipes) in
            [(self.options.detach, Pipes::Closed), (self.options.detach_holding, Pipes::Held)]
        {
            if count > 0 {
                let detached = self.detach(count, pipes);
                self.complain(&detached);
            }
        }
        self.end_at(Point::Start);
        for kind in &self.options.garbage {
            garbage(&self.output, "no-session-yet", *kind);
        }
        if let Some(mb) = self.options.long_line_mb {
            long_line(&self.output, "no-session-yet", mb);
        }
    }

    async fn until_it_hears(&self) {
        let is_deaf = || {
            let path = self.deaf_until.lock().unwrap_or_else(PoisonError::into_inner);
            path.as_ref().is_some_and(|path| !path.exists())
        };
        while is_deaf() {
            sleep(LOOK).await;
        }
    }

    /// A signal that is handled no longer ends the process by itself.
    async fn watch_signals(self: Arc<Self>) {
        let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
        while terminate.recv().await.is_some() {
            self.journal.note(&json!({"signal": "SIGTERM"}));
            if !self.options.ignore_sigterm {
                // It tidies up, and still hears what it is told.
                sleep(TIDYING).await;
                end(super::options::End::Exit(143));
            }
        }
    }

    async fn receive(self: Arc<Self>, message: Value, tasks: &TaskTracker) {
        let (id, params) = (message["id"].clone(), message["params"].clone());
        match message["method"].as_str() {
            None => self.output.answered(&id, message),
            Some("initialize") => self.initialize(&id).await,
            Some("session/new") => self.new_session(&id, &params).await,
            Some("session/load") if self.options.load => {
                self.load(&id, &params, Point::Load);
            }
            Some("session/resume") if self.options.resume => {
                self.load(&id, &params, Point::Resume);
            }
            Some("session/list") if self.options.list => self.list(&id),
            Some("session/close") if self.options.close => {
                self.cancel(&params);
                self.output.answer(&id, json!({}));
            }
            Some("session/prompt") => {
                // Before the next line is read, which may cancel it.
                let begun = self.begin_prompt(&params);
                tasks.spawn(self.prompt(id, params, begun));
            }
            Some("session/cancel") => {
                self.end_at(Point::Cancel);
                if !self.options.ignore_cancel {
                    self.cancel(&params);
                }
            }
            Some(_) if id.is_null() => {}
            Some(other) => {
                self.output.refuse(&id, -32601, &format!("there is no method {other}"));
            }
        }
    }

    async fn initialize(&self, id: &Value) {
        if self.options.is_silent_at(Point::Initialize) {
            return;
        }
        sleep(self.options.initialize_delay).await;
        let mut abilities = serde_json::Map::new();
        for (name, has) in [
            ("resume", self.options.resume),
            ("list", self.options.list),
            ("close", self.options.close),
        ] {
            if has {
                abilities.insert(name.to_owned(), json!({}));
            }
        }
        let answer = json!({
            "protocolVersion": self.options.protocol_version,
            "agentCapabilities": {
                "loadSession": self.options.load,
                "promptCapabilities": {"image": false, "audio": false, "embeddedContext": true},
                "sessionCapabilities": abilities,
            },
            "agentInfo": {"name": "scripted-agent", "title": "Scripted agent", "version": "1.0.0"},
            "authMethods": [{"id": "key", "name": "A key", "description": "Set SCRIPTED_KEY"}],
        });
        self.output.answer(id, answer);
        self.end_at(Point::Initialize);
    }

    async fn new_session(&self, id: &Value, params: &Value) {
        self.end_at(Point::New);
        if self.options.is_silent_at(Point::New) {
            return;
        }
        if self.options.auth_required {
            return self.output.refuse(id, -32000, "Authentication required");
        }
        let session = self.options.session_id.clone().unwrap_or_else(fresh_id);
        let cwd = params["cwd"].as_str().unwrap_or_default().to_owned();
        let conversation = Conversation { id: session.clone(), cwd, said: Vec::new() };
        self.memory.keep(&conversation);
        self.live(conversation);
        self.output.answer(id, json!({"sessionId": session}));
        if self.options.chatter {
            chatter(&self.output, &session);
        }
        if let Some((count, rate)) = self.options.flood {
            flood(&self.output, &session, count, rate).await;
            self.journal.note(&json!({"flooded": count}));
        }
    }

    /// Loading repeats the history; resuming does not.
    fn load(&self, id: &Value, params: &Value, how: Point) {
        self.end_at(how);
        if self.options.is_silent_at(how) {
            return;
        }
        if self.options.auth_required {
            return self.output.refuse(id, -32000, "Authentication required");
        }
        let session = params["sessionId"].as_str().unwrap_or_default();
        let Some(conversation) = self.memory.recall(session) else {
            let message = format!("there is no session {session}");
            return self.output.refuse(id, self.options.lost_code, &message);
        };
        let replay = if how == Point::Load { self.options.replay } else { Replay::Never };
        if replay == Replay::Before {
            self.repeat(&conversation);
        }
        self.live(conversation.clone());
        self.output.answer(id, json!({}));
        if replay == Replay::After {
            self.say(session, "user_message_chunk", "This is the context of the session.");
            self.repeat(&conversation);
        }
    }

    fn repeat(&self, conversation: &Conversation) {
        for said in &conversation.said {
            self.say(&conversation.id, &format!("{}_message_chunk", said.by), &said.text);
        }
    }

    fn list(&self, id: &Value) {
        let sessions = self.memory.all().into_iter();
        let sessions = sessions.map(|known| json!({"sessionId": known.id, "cwd": known.cwd}));
        self.output.answer(id, json!({"sessions": sessions.collect::<Vec<_>>()}));
    }

    async fn prompt(self: Arc<Self>, id: Value, params: Value, begun: Option<Begun>) {
        let session = params["sessionId"].as_str().unwrap_or_default();
        let Some((conversation, cancel)) = begun else {
            let message = format!("there is no session {session}");
            return self.output.refuse(&id, self.options.lost_code, &message);
        };
        let blocks = params["prompt"].as_array().cloned().unwrap_or_default();
        let texts: Vec<_> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        let prompt = texts.join("\n");
        let mut turn = Turn::new(self.clone(), conversation, cancel);
        let outcome = turn.run(&prompt).await;
        if self.options.is_silent_at(Point::Prompt) {
            return;
        }
        let late = turn.late();
        let conversation = turn.ended();
        self.memory.keep(&conversation);
        self.live(conversation);
        match outcome {
            Ok(answer) => self.output.answer(&id, answer),
            Err((code, message)) => self.output.refuse(&id, code, &message),
        }
        for number in 1..=late {
            self.say(session, "agent_message_chunk", &format!("late {number} "));
        }
        self.end_at(Point::Answer);
    }

    pub(super) fn say(&self, session: &str, what: &str, text: &str) {
        let content = json!({"type": "text", "text": text});
        self.output.update(session, json!({"sessionUpdate": what, "content": content}));
    }

    /// What it started, for people.
    pub(super) fn detach(&self, count: usize, pipes: Pipes) -> String {
        match detach(&self.options, count, pipes) {
            Ok(pids) => {
                self.journal.note(&json!({"detached": pids}));
                format!("detached {pids:?}")
            }
            Err(error) => format!("could not detach: {error}"),
        }
    }

    pub(super) fn complain(&self, text: &str) {
        // Nobody may listen.
        let _written = writeln!(std::io::stderr(), "{text}");
    }

    pub(super) fn remember(&self, conversation: &Conversation) {
        self.memory.keep(conversation);
    }

    /// Ends the process if it is to end here.
    pub(super) fn end_at(&self, point: Point) {
        if let Some(how) = self.options.end_at(point) {
            end(how);
        }
    }

    fn begin_prompt(&self, params: &Value) -> Option<Begun> {
        let mut sessions = self.lock();
        let live = sessions.get_mut(params["sessionId"].as_str()?)?;
        live.cancel = CancellationToken::new();
        Some((live.conversation.clone(), live.cancel.clone()))
    }

    fn cancel(&self, params: &Value) {
        let session = params["sessionId"].as_str().unwrap_or_default();
        if let Some(live) = self.lock().get(session) {
            live.cancel.cancel();
        }
    }

    fn live(&self, conversation: Conversation) {
        let live = Live { cancel: CancellationToken::new(), conversation };
        self.lock().insert(live.conversation.id.clone(), live);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Live>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
