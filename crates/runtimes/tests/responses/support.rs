//! What the tests share: a prompt, a runtime that talks to a server, and a server that says given bytes.

use std::{
    fmt::Debug,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures::StreamExt;
use skein_core::{
    model::{FailureCode, Mode, SessionId, TurnId},
    ports::{
        AgentOutcome, AgentRuntime, AgentUpdate, ChainKeeping, Prompt, Reattach, RunRequest,
        RuntimeFailure,
    },
};
use skein_runtimes::responses::{ProviderSettings, Responses, SecretString, Timeouts};
use skein_testkit::responses::ResponsesServer;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::{
    Event, Metadata, Subscriber,
    field::Field,
    span::{Attributes, Id, Record},
};
use uuid::Uuid;

pub(crate) fn prompt(instruction: &str) -> Prompt {
    Prompt {
        session: SessionId::from_uuid(Uuid::from_u128(1)),
        turn: TurnId::from_uuid(Uuid::from_u128(2)),
        system_prompt: None,
        model: Some("gpt-5".to_owned()),
        temperature: None,
        previous_response_id: None,
        open_calls: Vec::new(),
        history: Vec::new(),
        passages: Vec::new(),
        files: Vec::new(),
        instruction: Arc::from(instruction),
        mode: Mode::Ask,
    }
}

pub(crate) fn edit(instruction: &str) -> Prompt {
    Prompt { mode: Mode::Edit, ..prompt(instruction) }
}

pub(crate) fn settings(server: &ResponsesServer) -> ProviderSettings {
    let key = (!server.key().is_empty()).then(|| SecretString::from(server.key()));
    ProviderSettings { key, ..settings_at(&server.base_url()) }
}

pub(crate) fn settings_at(base_url: &str) -> ProviderSettings {
    ProviderSettings {
        allow_private: true,
        timeouts: Timeouts {
            connect: Duration::from_secs(5),
            idle: Duration::from_secs(10),
            total: Duration::from_secs(20),
        },
        ..ProviderSettings::new("test", base_url)
    }
}

/// The server's own way of keeping chains, with responses that outlive their connections.
pub(crate) fn background(server: &ResponsesServer) -> ProviderSettings {
    ProviderSettings { background: true, ..settings(server) }
}

pub(crate) fn without_memory(server: &ResponsesServer) -> ProviderSettings {
    ProviderSettings { chain: ChainKeeping::Nobody, ..settings(server) }
}

pub(crate) fn impatient(settings: ProviderSettings) -> ProviderSettings {
    let timeouts = Timeouts { idle: Duration::from_millis(200), ..settings.timeouts };
    ProviderSettings { timeouts, ..settings }
}

pub(crate) fn runtime(settings: ProviderSettings) -> Responses {
    Responses::new(settings).unwrap()
}

pub(crate) fn request(runtime: &Responses, prompt: Prompt) -> RunRequest {
    RunRequest {
        session: prompt.session,
        turn: prompt.turn,
        body: runtime.compose(&prompt),
        prompt: Arc::new(prompt),
        attempts: 3,
        cancel: CancellationToken::new(),
    }
}

pub(crate) fn reattach(response_id: &str, after: Option<u64>) -> Reattach {
    let prompt = prompt("");
    Reattach {
        session: prompt.session,
        turn: prompt.turn,
        mode: prompt.mode,
        response_id: response_id.to_owned(),
        after,
        cancel: CancellationToken::new(),
    }
}

/// Runs a prompt to its end.
pub(crate) async fn run(settings: ProviderSettings, prompt: Prompt) -> Seen {
    let runtime = runtime(settings);
    let request = request(&runtime, prompt);
    Seen(runtime.run(request).collect().await)
}

/// All updates of a run.
#[derive(Debug)]
pub(crate) struct Seen(pub(crate) Vec<AgentUpdate>);

impl Seen {
    pub(crate) fn text(&self) -> String {
        let texts = self.0.iter().filter_map(|update| match update {
            AgentUpdate::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    pub(crate) fn raw(&self) -> Bytes {
        let raw = self.0.iter().filter_map(|update| match update {
            AgentUpdate::Raw(bytes) => Some(bytes.as_ref()),
            _ => None,
        });
        Bytes::from(raw.collect::<Vec<_>>().concat())
    }

    pub(crate) fn warnings(&self) -> Vec<&str> {
        let warnings = self.0.iter().filter_map(|update| match update {
            AgentUpdate::Warning(text) => Some(text.as_str()),
            _ => None,
        });
        warnings.collect()
    }

    pub(crate) fn response_id(&self) -> &str {
        let id = self.0.iter().find_map(|update| match update {
            AgentUpdate::Response(id) => Some(id.as_str()),
            _ => None,
        });
        id.expect("a response id")
    }

    pub(crate) fn open_calls(&self) -> Vec<String> {
        let calls = self.0.iter().filter_map(|update| match update {
            AgentUpdate::OpenCall(id) => Some(id.clone()),
            _ => None,
        });
        calls.collect()
    }

    pub(crate) fn positions(&self) -> Vec<u64> {
        let positions = self.0.iter().filter_map(|update| match update {
            AgentUpdate::Position(number) => Some(*number),
            _ => None,
        });
        positions.collect()
    }

    /// Everything but raw bytes and positions.
    pub(crate) fn told(&self) -> Vec<AgentUpdate> {
        let is_told = |update: &&AgentUpdate| {
            !matches!(update, AgentUpdate::Raw(_) | AgentUpdate::Position(_))
        };
        self.0.iter().filter(is_told).cloned().collect()
    }

    /// The outcome, of which there is exactly one, at the end.
    pub(crate) fn outcome(&self) -> AgentOutcome {
        let is_end = |update: &&AgentUpdate| matches!(update, AgentUpdate::Finished(_));
        assert_eq!(self.0.iter().filter(is_end).count(), 1, "{:?}", self.0);
        match self.0.last() {
            Some(AgentUpdate::Finished(outcome)) => outcome.clone(),
            other => panic!("the last update is {other:?}"),
        }
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.outcome() == AgentOutcome::Answered
    }

    pub(crate) fn failure(&self) -> (FailureCode, String) {
        match self.outcome() {
            AgentOutcome::Failed(RuntimeFailure { code, message }) => (code, message),
            other => panic!("unexpected outcome {other:?}"),
        }
    }
}

/// Says these bytes to every caller, in these pieces, and closes.
pub(crate) struct Bare {
    pub(crate) address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Bare {
    pub(crate) async fn saying(pieces: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A caller may leave before everything was said.
                drop(say(stream, &pieces).await);
            }
        });
        Self { address, _tasks: tasks }
    }

    /// A reply without a length, so that it ends where the connection does.
    pub(crate) async fn replying(head: &str, body: &[&[u8]]) -> Self {
        let head = format!("HTTP/1.1 {head}\r\nconnection: close\r\n\r\n");
        let pieces = [head.as_bytes()].into_iter().chain(body.iter().copied());
        Self::saying(pieces.map(<[u8]>::to_vec).collect()).await
    }

    pub(crate) async fn events(body: &[&[u8]]) -> Self {
        Self::replying("200 OK\r\ncontent-type: text/event-stream", body).await
    }

    pub(crate) fn settings(&self) -> ProviderSettings {
        settings_at(&format!("http://{}/v1", self.address))
    }
}

async fn say(mut stream: TcpStream, pieces: &[Vec<u8>]) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = Vec::new();
    while !is_whole(&request) {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    for piece in pieces {
        stream.write_all(piece).await?;
        stream.flush().await?;
        tokio::task::yield_now().await;
    }
    stream.shutdown().await
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    request.len() >= head.len() + 4 + length
}

/// Hears what this thread logs.
#[derive(Clone, Default)]
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    more: Arc<Notify>,
}

impl Log {
    /// Waits until something that contains this was logged.
    pub(crate) async fn said(&self, wanted: &str) {
        while !self.lines.lock().unwrap().iter().any(|line| line.contains(wanted)) {
            self.more.notified().await;
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = String::new();
        event.record(&mut |field: &Field, value: &dyn Debug| {
            line.push_str(&format!("{field}={value:?} "));
        });
        self.lines.lock().unwrap().push(line);
        self.more.notify_one();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
