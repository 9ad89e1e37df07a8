//! One prompt: its lines, played one after the other until one ends the turn or the client cancels it.

use std::{
    collections::BTreeMap,
    env, fs,
    future::pending,
    path::Path,
    sync::{Arc, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    clock::wall_nanos,
    detach::Pipes,
    memory::Conversation,
    misbehave::{chatter, end, flood, garbage, long_line},
    options::{End, Point, Reaction},
    script::{Call, Step, ToolEnd, steps},
    serve::Agent,
};

/// How often a file that is waited for is looked for.
pub(super) const LOOK: Duration = Duration::from_millis(10);
/// A window that no turn here fills.
const CONTEXT_TOKENS: u64 = 200_000;

/// The answer to a prompt, or the code and message of an error.
pub(super) type Outcome = Result<Value, (i64, String)>;

/// A prompt under way.
#[derive(Debug)]
pub(super) struct Turn {
    agent: Arc<Agent>,
    conversation: Conversation,
    cancel: CancellationToken,
    said: String,
    usage: Option<Value>,
    late: usize,
    has_updated: bool,
}

/// Whether a turn goes on after a step.
enum Next {
    GoOn,
    Stop(String),
    Fail(i64, String),
}

impl Turn {
    pub(super) fn new(
        agent: Arc<Agent>,
        conversation: Conversation,
        cancel: CancellationToken,
    ) -> Self {
        let late = agent.options.late;
        Self {
            agent,
            conversation,
            cancel,
            said: String::new(),
            usage: None,
            late,
            has_updated: false,
        }
    }

    pub(super) async fn run(&mut self, prompt: &str) -> Outcome {
        self.agent.end_at(Point::Prompt);
        self.begin();
        let before = self.conversation.clone();
        self.conversation.add("user", prompt);
        self.agent.remember(&self.conversation);
        let cancel = self.cancel.clone();
        let next = tokio::select! {
            biased;
            () = cancel.cancelled() => Next::Stop("cancelled".to_owned()),
            next = self.play(prompt, &before) => next,
        };
        match next {
            Next::Fail(code, message) => Err((code, message)),
            Next::GoOn => Ok(self.answer("end_turn")),
            Next::Stop(reason) => Ok(self.answer(&reason)),
        }
    }

    /// How many updates are to follow the answer.
    pub(super) fn late(&self) -> usize {
        self.late
    }

    /// The conversation with this turn in it.
    pub(super) fn ended(mut self) -> Conversation {
        self.conversation.add("agent", &self.said);
        self.conversation
    }

    fn begin(&self) {
        let agent = &self.agent;
        if agent.options.chatter {
            chatter(&agent.output, self.session());
        }
        for kind in &agent.options.garbage {
            garbage(&agent.output, self.session(), *kind);
        }
    }

    async fn play(&mut self, prompt: &str, before: &Conversation) -> Next {
        for step in steps(prompt) {
            match self.step(step, before).await {
                Next::GoOn => {}
                ended => return ended,
            }
        }
        Next::GoOn
    }

    async fn step(&mut self, step: Step, before: &Conversation) -> Next {
        match step {
            Step::Say(text) => self.say(&text),
            Step::SaySlowly { chunks, pause_ms } => self.say_slowly(chunks, pause_ms).await,
            Step::Think(text) => {
                self.update(chunk("agent_thought_chunk", &text));
            }
            Step::Plan(plan) => self.plan(&plan),
            Step::Tool { call, end } => self.tool(&call, &end),
            Step::Diff { path, text } => self.diff(&path, &text),
            Step::Ask { id, kind, path, reaction } => {
                let reaction = reaction.unwrap_or(self.agent.options.on_reject);
                return self.ask((&id, &kind, &path), reaction).await;
            }
            Step::AskMany { count } => self.ask_many(count).await,
            Step::Stamp { count, pause_ms } => self.stamp(count, pause_ms).await,
            Step::Usage { input, output } => self.use_tokens(input, output),
            Step::Stall => pending().await,
            Step::Late { count } => self.late = count,
            Step::History => self.say(&before.told()),
            Step::Stop { reason } => return Next::Stop(reason),
            Step::Fail { code, message } => return Next::Fail(code, message),
            Step::Exit { code } => end(End::Exit(code)),
            Step::Crash { signal } => end(End::Signal(signal)),
            other => self.act(other).await,
        }
        Next::GoOn
    }

    /// Steps that touch the world, or break the rules.
    async fn act(&mut self, step: Step) {
        let (output, session) = (&self.agent.output, self.conversation.id.clone());
        match step {
            Step::Write { path, text } => {
                let done = fs::write(&path, &text).map(|()| format!("{} bytes", text.len()));
                self.say(&report("write", &path, done));
            }
            Step::Append { path, text } => {
                let done = append(&path, &text).map(|()| format!("{} bytes", text.len()));
                self.say(&report("append", &path, done));
            }
            Step::Read { path } => {
                let done = fs::read_to_string(&path);
                self.say(&report("read", &path, done));
            }
            Step::WaitFor { path } => {
                while !Path::new(&path).exists() {
                    sleep(LOOK).await;
                }
            }
            Step::DeafUntil { path } => {
                let path = env::current_dir().unwrap_or_default().join(path);
                let mut deaf_until =
                    self.agent.deaf_until.lock().unwrap_or_else(PoisonError::into_inner);
                *deaf_until = Some(path);
            }
            Step::Flood { count, rate } => {
                flood(output, &session, count, rate).await;
                self.first_update();
            }
            Step::ForkDetached { count } => {
                let detached = self.agent.detach(count, Pipes::Closed);
                self.say(&detached);
            }
            Step::Garbage { kind, count } => {
                for _ in 0..count {
                    garbage(output, &session, kind);
                }
            }
            Step::LongLine { mb } => long_line(output, &session, mb),
            Step::Stderr(text) => self.agent.complain(&text),
            Step::Env => {
                let all: BTreeMap<String, String> = env::vars().collect();
                self.say(&json!(all).to_string());
            }
            Step::Pwd => {
                let directory = env::current_dir().map(|path| path.display().to_string());
                self.say(&directory.unwrap_or_else(|error| format!("no directory: {error}")));
            }
            _ => {}
        }
    }

    fn say(&mut self, text: &str) {
        self.said.push_str(text);
        self.update(chunk("agent_message_chunk", text));
    }

    async fn say_slowly(&mut self, chunks: usize, pause_ms: u64) {
        for number in 1..=chunks {
            self.say(&format!("{number} "));
            sleep(Duration::from_millis(pause_ms)).await;
        }
    }

    fn plan(&mut self, plan: &[String]) {
        let entries: Vec<_> = plan
            .iter()
            .enumerate()
            .map(|(place, step)| {
                let status = if place == 0 { "in_progress" } else { "pending" };
                json!({"content": step, "priority": "medium", "status": status})
            })
            .collect();
        self.update(json!({"sessionUpdate": "plan", "entries": entries}));
    }

    fn tool(&mut self, call: &Call, end: &ToolEnd) {
        self.update(json!({
            "sessionUpdate": "tool_call",
            "toolCallId": call.id,
            "title": call.name,
            "kind": call.kind,
            "status": "in_progress",
            "rawInput": call.args,
        }));
        let (status, result) = match end {
            ToolEnd::Completed(result) => ("completed", result),
            ToolEnd::Failed(result) => ("failed", result),
            ToolEnd::Never => return,
        };
        self.end_tool(&call.id, status, result);
    }

    /// Updates of a call are not gathered as text is, so each shows how long a line takes.
    async fn stamp(&mut self, count: usize, pause_ms: u64) {
        const ID: &str = "stamp";
        let (name, kind) = (ID.to_owned(), "other".to_owned());
        let call = Call { id: ID.to_owned(), name, kind, args: json!({}) };
        self.tool(&call, &ToolEnd::Never);
        for _ in 0..count {
            sleep(Duration::from_millis(pause_ms)).await;
            self.update(json!({
                "sessionUpdate": "tool_call_update",
                "toolCallId": ID,
                "status": "in_progress",
                "rawInput": {"nanos": wall_nanos()},
            }));
        }
        sleep(Duration::from_millis(pause_ms)).await;
        self.end_tool(ID, "completed", &json!({}));
    }

    fn end_tool(&mut self, id: &str, status: &str, result: &Value) {
        self.update(json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": id,
            "status": status,
            "rawOutput": result,
        }));
    }

    /// The file is written before it is told, as an agent does that edits by itself.
    fn diff(&mut self, path: &str, text: &str) {
        let old = fs::read_to_string(path).ok();
        let done = report("write", path, fs::write(path, text).map(|()| "done".to_owned()));
        let diff = json!({"type": "diff", "path": path, "oldText": old, "newText": text});
        self.update(json!({
            "sessionUpdate": "tool_call",
            "toolCallId": format!("diff-{path}"),
            "title": format!("Edit {path}"),
            "kind": "edit",
            "status": "completed",
            "content": [diff],
            "locations": [{"path": path}],
            "rawInput": {"path": path},
            "rawOutput": {"text": done},
        }));
    }

    async fn ask(&mut self, (id, kind, path): (&str, &str, &str), reaction: Reaction) -> Next {
        let params = self.question(id, kind, path);
        let answer = self.agent.output.ask("session/request_permission", params).await;
        let answer = answer.unwrap_or_default();
        let outcome = &answer["result"]["outcome"];
        match outcome["optionId"].as_str() {
            Some("yes" | "always") => {
                let done = match kind {
                    "edit" => fs::write(path, format!("written by {id}\n"))
                        .map(|()| format!("{path} is written")),
                    _ => fs::read_to_string(path),
                };
                let result = json!({"text": report(kind, path, done)});
                self.end_tool(id, "completed", &result);
                Next::GoOn
            }
            _ => self.refused(id, outcome, reaction),
        }
    }

    /// All at once, whoever answers which.
    async fn ask_many(&mut self, count: usize) {
        let questions = (0..count).map(|number| {
            let params = self.question(&format!("many-{number}"), "read", "a.txt");
            self.agent.output.ask("session/request_permission", params)
        });
        let answers = join_all(questions).await;
        let outcome = |answer: &Option<Value>| {
            answer.as_ref().map(|answer| answer["result"]["outcome"]["outcome"].clone())
        };
        let selected = answers.iter().filter(|answer| outcome(answer) == Some(json!("selected")));
        let selected = selected.count();
        self.say(&format!("{selected} selected, {} not", count - selected));
    }

    fn question(&self, id: &str, kind: &str, path: &str) -> Value {
        let tool_call = json!({
            "toolCallId": id,
            "title": format!("{kind} {path}"),
            "kind": kind,
            "status": "pending",
            "rawInput": {"path": path},
            "locations": [{"path": path}],
        });
        let option =
            |id: &str, name: &str, kind: &str| json!({"optionId": id, "name": name, "kind": kind});
        json!({
            "sessionId": self.session(),
            "toolCall": tool_call,
            "options": [
                option("yes", "Allow", "allow_once"),
                option("always", "Always allow", "allow_always"),
                option("no", "Reject", "reject_once"),
            ],
        })
    }

    fn refused(&mut self, id: &str, outcome: &Value, reaction: Reaction) -> Next {
        match reaction {
            Reaction::Silent => Next::Stop("end_turn".to_owned()),
            Reaction::Cancelled => Next::Stop("cancelled".to_owned()),
            Reaction::GoOn => {
                self.end_tool(id, "failed", &json!({"error": "not permitted"}));
                self.say(&format!("{id} was not permitted: {outcome}"));
                Next::GoOn
            }
        }
    }

    fn use_tokens(&mut self, input: u64, output: u64) {
        let total = input + output;
        let used = json!({"sessionUpdate": "usage_update", "used": total, "size": CONTEXT_TOKENS});
        self.update(used);
        self.usage =
            Some(json!({"totalTokens": total, "inputTokens": input, "outputTokens": output}));
    }

    fn update(&mut self, update: Value) {
        self.agent.output.update(self.session(), update);
        self.first_update();
    }

    fn first_update(&mut self) {
        if !std::mem::replace(&mut self.has_updated, true) {
            self.agent.end_at(Point::Update);
        }
    }

    fn answer(&self, reason: &str) -> Value {
        let mut answer = json!({"stopReason": reason});
        if let Some(usage) = &self.usage {
            answer["usage"] = usage.clone();
        }
        answer
    }

    fn session(&self) -> &str {
        &self.conversation.id
    }
}

fn chunk(what: &str, text: &str) -> Value {
    json!({"sessionUpdate": what, "content": {"type": "text", "text": text}})
}

fn append(path: &str, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    fs::File::options().create(true).append(true).open(path)?.write_all(text.as_bytes())
}

/// `read a.txt: ok: text`, or `read a.txt: error: reason`.
fn report(what: &str, path: &str, done: std::io::Result<String>) -> String {
    match done {
        Ok(text) => format!("{what} {path}: ok: {text}"),
        Err(error) => format!("{what} {path}: error: {error}"),
    }
}
