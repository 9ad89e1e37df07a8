//! The calls of one turn and what comes back, step by step. Dropping it stops it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream, stream::BoxStream};
use reqwest::{Response, StatusCode, header::CONTENT_TYPE};
use skein_core::{
    model::FailureCode,
    ports::{AgentOutcome, AgentUpdate, Reattach, RunRequest, RuntimeFailure},
};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{
    address::PrivateAddress,
    compose,
    provider::Provider,
    redact::{Redactor, StreamKey},
    refusal::{Refusal, backoff},
    reply::{End, Expected, Reply, Whole},
    sse::{Events, MAX_EVENT_BYTES},
};

pub(super) const REDIRECTED: &str =
    "the provider's address answers with a redirect; redirects are refused";

/// How long the stream may go on after its last event. Reading it to the end lets the connection be used again.
const AFTERMATH: Duration = Duration::from_millis(250);

/// How long a cancelled turn waits for the id of its response.
const UNTIL_ID: Duration = Duration::from_secs(1);

/// Pauses before a response is taken up. As many times in a row may it fail.
const TAKE_UP_PAUSES: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

pub(super) struct Exchange {
    provider: Arc<Provider>,
    step: Step,
    /// Updates that wait for the reader.
    ready: VecDeque<AgentUpdate>,
    reply: Reply,
    events: Events,
    redactor: Redactor,
    cancel: CancellationToken,
    /// Calls that may be made in all, and that were made.
    attempts: u32,
    calls: u32,
    /// How often in a row the response was taken up without getting further.
    takings: usize,
    /// Whether this connection took the response up and has said nothing new yet.
    heard_nothing: bool,
    /// Begins with the first poll.
    deadline: Option<Instant>,
    /// When to stop waiting for the end of a stream whose last event has come.
    aftermath: Option<Instant>,
}

/// What is to be done next.
enum Step {
    Create(Bytes),
    TakeUp,
    Inspect,
    ReadEvents(Response),
    ReadWhole(Response, Whole),
    Done,
}

impl Exchange {
    pub(super) fn create(provider: Arc<Provider>, request: RunRequest) -> Self {
        let expected = Expected {
            mode: request.prompt.mode,
            background: provider.manner.background,
            continues: request.prompt.previous_response_id.is_some(),
            taken_up: None,
        };
        let body = request.body.or_else(|| compose::compose(provider.manner, &request.prompt));
        let step = Step::Create(body.unwrap_or_default());
        Self { attempts: request.attempts, ..Self::new(provider, step, expected, request.cancel) }
    }

    pub(super) fn take_up(provider: Arc<Provider>, request: Reattach) -> Self {
        let expected = Expected {
            mode: request.mode,
            background: true,
            continues: false,
            taken_up: Some((request.response_id, request.after)),
        };
        Self::new(provider, Step::TakeUp, expected, request.cancel)
    }

    fn new(
        provider: Arc<Provider>,
        step: Step,
        expected: Expected,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            redactor: Redactor::new(provider.key.as_ref()),
            reply: Reply::new(expected, StreamKey::new(provider.key.as_ref())),
            provider,
            step,
            ready: VecDeque::new(),
            events: Events::default(),
            cancel,
            attempts: 1,
            calls: 0,
            takings: 0,
            heard_nothing: false,
            deadline: None,
            aftermath: None,
        }
    }

    pub(super) fn into_stream(self) -> BoxStream<'static, AgentUpdate> {
        stream::unfold(self, |mut exchange| async move {
            let update = exchange.next().await?;
            Some((update, exchange))
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<AgentUpdate> {
        let total = self.provider.timeouts.total;
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + total);
        loop {
            if let Some(update) = self.ready.pop_front() {
                return Some(update);
            }
            if matches!(self.step, Step::Done) {
                return None;
            }
            let (cancel, patience) = (self.cancel.clone(), self.patience());
            tokio::select! {
                biased;
                () = called_off(&cancel, patience) => {
                    self.stop(FailureCode::Cancelled, "the turn was cancelled".to_owned());
                }
                () = self.advance() => {}
                () = sleep_until(deadline) => {
                    let message = format!("no whole answer within {} s", total.as_secs_f64());
                    self.stop(FailureCode::ProviderTimeout, message);
                }
            }
        }
    }

    /// How long to go on after the turn was cancelled: a response that outlives us can be called off only by its id.
    fn patience(&self) -> Option<Duration> {
        let is_unknown = self.provider.manner.background && self.reply.response_id().is_none();
        is_unknown.then_some(UNTIL_ID)
    }

    /// Does one step. It sets the next one, or ends the exchange.
    async fn advance(&mut self) {
        match std::mem::replace(&mut self.step, Step::Done) {
            Step::Create(body) => self.call(body).await,
            Step::TakeUp => self.call_again().await,
            Step::Inspect => self.inspect().await,
            Step::ReadEvents(response) => self.read_events(response).await,
            Step::ReadWhole(response, whole) => self.read_whole(response, whole).await,
            Step::Done => {}
        }
    }

    /// Asks for the response.
    async fn call(&mut self, body: Bytes) {
        self.calls += 1;
        let idle = self.provider.timeouts.idle;
        let sent = timeout(idle, self.provider.create(body.clone()).send()).await;
        match sent {
            Err(_) => self.time_out(),
            Ok(Err(error)) => {
                let message = unreachable(&error);
                if PrivateAddress::cause_of(&error).is_some() {
                    self.fail(FailureCode::ProviderError, message);
                } else if !error.is_connect() {
                    self.fail(FailureCode::Interrupted, message);
                } else if self.calls < self.attempts {
                    self.repeat(body, backoff(self.calls), &message).await;
                } else if error.is_timeout() {
                    self.fail(FailureCode::ProviderTimeout, message);
                } else {
                    self.fail(FailureCode::ProviderError, message);
                }
            }
            Ok(Ok(response)) if response.status().is_success() => self.begin(response).await,
            Ok(Ok(response)) if response.status().is_redirection() => {
                self.fail(FailureCode::ProviderError, REDIRECTED);
            }
            Ok(Ok(response)) => {
                let refusal = Refusal::read(response, idle).await;
                self.refused(refusal, body).await;
            }
        }
    }

    async fn refused(&mut self, refusal: Refusal, body: Bytes) {
        if self.reply.continues() && refusal.is_lost_chain() {
            self.give_raw(refusal.as_event_stream());
            self.finish(End::ChainLost);
            return;
        }
        match refusal.pause(self.calls) {
            Some(pause) if self.calls < self.attempts => {
                self.repeat(body, pause, &refusal.message()).await;
            }
            _ => {
                self.give_raw(refusal.body.clone());
                self.fail(FailureCode::ProviderError, refusal.message());
            }
        }
    }

    /// Makes the call once more: it is proven that nothing ran.
    async fn repeat(&mut self, body: Bytes, pause: Duration, reason: &str) {
        let reason = self.provider.redacted(reason);
        info!(provider = self.provider.name, ?pause, calls = self.calls, reason, "calling again");
        sleep(pause).await;
        self.step = Step::Create(body);
    }

    /// Asks for the rest of a response that goes on by itself.
    async fn call_again(&mut self) {
        let Some(id) = self.reply.response_id().map(str::to_owned) else { return };
        sleep(TAKE_UP_PAUSES.get(self.takings).copied().unwrap_or_default()).await;
        self.takings += 1;
        self.heard_nothing = true;
        self.reply.take_up();
        self.events.restart();
        let idle = self.provider.timeouts.idle;
        let request = self.provider.retrieve(&id, self.reply.position());
        match timeout(idle, request.send()).await {
            Err(_) => self.time_out(),
            Ok(Err(error)) => match PrivateAddress::cause_of(&error) {
                Some(_) => self.fail(FailureCode::ProviderError, unreachable(&error)),
                None => self.take_up_or_fail(&unreachable(&error)),
            },
            Ok(Ok(response)) if response.status().is_success() => self.begin(response).await,
            Ok(Ok(response)) => {
                let refusal = Refusal::read(response, idle).await;
                let status = refusal.status;
                if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
                    self.take_up_or_fail(&refusal.message());
                } else {
                    self.give_raw(refusal.body.clone());
                    let message = format!("the response cannot be taken up: {}", refusal.message());
                    self.fail(FailureCode::Interrupted, message);
                }
            }
        }
    }

    /// Asks how a response stands whose stream has no more to say.
    async fn inspect(&mut self) {
        let Some(id) = self.reply.response_id().map(str::to_owned) else { return };
        let idle = self.provider.timeouts.idle;
        match timeout(idle, self.provider.inspect(&id).send()).await {
            Err(_) => self.time_out(),
            Ok(Err(error)) => self.take_up_or_fail(&unreachable(&error)),
            Ok(Ok(response)) if response.status().is_success() => {
                self.step = Step::ReadWhole(response, Whole::AfterStream);
            }
            Ok(Ok(response)) => {
                let refusal = Refusal::read(response, idle).await;
                self.take_up_or_fail(&refusal.message());
            }
        }
    }

    fn take_up_or_fail(&mut self, reason: &str) {
        let reason = self.provider.redacted(reason);
        if self.takings < TAKE_UP_PAUSES.len() {
            self.flush_raw();
            info!(provider = self.provider.name, takings = self.takings, reason, "taking up again");
            self.step = Step::TakeUp;
        } else {
            self.fail(
                FailureCode::Interrupted,
                format!("the response cannot be taken up: {reason}"),
            );
        }
    }

    async fn begin(&mut self, response: Response) {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        match kind.to_ascii_lowercase().as_str() {
            "" | "text/event-stream" => self.step = Step::ReadEvents(response),
            "application/json" => self.step = Step::ReadWhole(response, Whole::Instead),
            other => {
                let message = format!("the provider answered with {other}, not with events");
                let reply = Refusal::read(response, self.provider.timeouts.idle).await;
                self.give_raw(reply.body);
                self.fail(FailureCode::ProviderError, message);
            }
        }
    }

    async fn read_events(&mut self, mut response: Response) {
        let silent_at = Instant::now() + self.provider.timeouts.idle;
        let until = self.aftermath.unwrap_or(silent_at);
        match timeout_at(until, response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                self.step = Step::ReadEvents(response);
                self.take(chunk);
            }
            Err(_) if self.aftermath.is_none() => self.time_out(),
            Ok(Ok(None)) if self.heard_nothing && self.reply.end().is_none() => {
                self.step = Step::Inspect;
            }
            Ok(Ok(None) | Err(_)) | Err(_) => self.ended(),
        }
    }

    fn take(&mut self, chunk: Bytes) {
        let chunk = self.redactor.feed(chunk);
        if chunk.is_empty() {
            return;
        }
        self.ready.push_back(AgentUpdate::Raw(chunk.clone()));
        let (reply, ready) = (&mut self.reply, &mut self.ready);
        let before = reply.position();
        let fed = self.events.feed(&chunk, |data| reply.take(data, ready));
        if !self.reply.wants_text() {
            self.events.leave_out_texts();
        }
        if self.reply.position() != before {
            self.takings = 0;
            self.heard_nothing = false;
        }
        if self.reply.end().is_some() {
            self.aftermath.get_or_insert_with(|| Instant::now() + AFTERMATH);
        } else if fed.is_err() {
            self.fail(FailureCode::ProviderError, too_large("event"));
        }
    }

    /// The stream is over, whether the response is or not.
    fn ended(&mut self) {
        if let Some(end) = self.reply.end().cloned() {
            self.finish(end);
        } else if self.provider.manner.background && self.reply.response_id().is_some() {
            self.take_up_or_fail("the connection was cut");
        } else if self.reply.is_gibberish() {
            self.fail(FailureCode::ProviderError, "nothing that the provider sent could be read");
        } else {
            let message = "the connection was cut before the answer was whole";
            self.fail(FailureCode::Interrupted, message);
        }
    }

    /// Reads a response that does not come as a stream.
    async fn read_whole(&mut self, mut response: Response, whole: Whole) {
        let idle = self.provider.timeouts.idle;
        let mut body = BytesMut::new();
        loop {
            match timeout(idle, response.chunk()).await {
                Err(_) => return self.time_out(),
                Ok(Err(_)) => return self.ended(),
                Ok(Ok(None)) => {
                    let body = body.freeze();
                    self.give_raw(body.clone());
                    self.reply.take_whole(&body, whole, &mut self.ready);
                    return self.ended();
                }
                Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
            }
            if body.len() > MAX_EVENT_BYTES {
                return self.fail(FailureCode::ProviderError, too_large("answer"));
            }
        }
    }

    /// Gives a body that was read whole.
    fn give_raw(&mut self, body: Bytes) {
        let body = self.redactor.feed(body);
        if !body.is_empty() {
            self.ready.push_back(AgentUpdate::Raw(body));
        }
        self.flush_raw();
    }

    /// Gives what was held back. It is the beginning of a line at most, so no event waits for it.
    fn flush_raw(&mut self) {
        let rest = self.redactor.finish();
        if !rest.is_empty() {
            self.ready.push_back(AgentUpdate::Raw(rest));
        }
    }

    fn time_out(&mut self) {
        let seconds = self.provider.timeouts.idle.as_secs_f64();
        let message = format!("nothing came from the provider for {seconds} s");
        self.fail(FailureCode::ProviderTimeout, message);
    }

    /// Ends the exchange from outside. If the provider has said its last word, that counts.
    fn stop(&mut self, code: FailureCode, message: String) {
        let end = self.reply.end().cloned();
        self.finish(end.unwrap_or_else(|| End::failed(code, message)));
    }

    fn fail(&mut self, code: FailureCode, message: impl Into<String>) {
        self.finish(End::failed(code, message));
    }

    fn finish(&mut self, end: End) {
        self.flush_raw();
        self.reply.give_rest(&mut self.ready);
        self.ready.extend(self.reply.complaint().map(AgentUpdate::Warning));
        let outcome = match end {
            End::Answered => AgentOutcome::Answered,
            End::ChainLost => AgentOutcome::ChainLost { calls: self.calls },
            End::Failed(RuntimeFailure { code, message }) => {
                let message = self.provider.redacted(&message);
                AgentOutcome::Failed(RuntimeFailure { code, message })
            }
        };
        self.ready.push_back(AgentUpdate::Finished(outcome));
        self.step = Step::Done;
    }
}

async fn called_off(cancel: &CancellationToken, patience: Option<Duration>) {
    cancel.cancelled().await;
    if let Some(patience) = patience {
        sleep(patience).await;
    }
}

fn too_large(what: &str) -> String {
    format!("the provider sent an {what} of more than {} MiB", MAX_EVENT_BYTES / (1024 * 1024))
}

/// Why a call got no reply: the innermost cause, which is the one that says something.
pub(super) fn unreachable(error: &reqwest::Error) -> String {
    if let Some(refused) = PrivateAddress::cause_of(error) {
        return refused.to_string();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    match error.is_connect() {
        true => format!("the provider cannot be reached: {cause}"),
        false => format!("the connection was cut before an answer came: {cause}"),
    }
}
