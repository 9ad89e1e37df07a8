//! One way to the REST API with two forms: HTTP to a server, or the same router in this process.

mod http;
mod in_process;
mod problem;
mod sse;
mod target;

use ::http::{HeaderName, Method, StatusCode, header};
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use serde_json::Value;

use crate::{
    commands::Context,
    failure::{Exit, Failure},
    home::{Holder, LockState, Locked},
};
use http::Http;
pub(crate) use http::{is_ready, never_arrived};
use in_process::InProcess;
pub(crate) use problem::Refusal;
pub(crate) use sse::{SseEvent, SseParser};
pub(crate) use target::Target;

/// No answer that is read whole is larger.
const MAX_BODY_BYTES: usize = 256 * 1024 * 1024;

/// A client of the REST API.
pub(crate) struct Client {
    form: Form,
}

enum Form {
    Http(Http),
    InProcess(Box<InProcess>),
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) target: Target,
    pub(crate) body: Option<Value>,
    /// Resume a stream after this event.
    pub(crate) last_event_id: Option<u64>,
    /// Makes it safe to send the request again.
    pub(crate) idempotency_key: Option<String>,
    pub(crate) wants: Wants,
}

/// In which form the answer is wanted, where there is a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Wants {
    #[default]
    Whole,
    Events,
}

/// An answer whose body has not been read.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: BoxStream<'static, Result<Bytes, Failure>>,
}

/// A body as the server sent it, and what it says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) raw: Bytes,
    pub(crate) value: Value,
}

impl Client {
    /// `SKEIN_URL` if it is set; else the server that works on the home; else this process.
    pub(crate) async fn connect(context: &Context) -> Result<Self, Failure> {
        if let Some(url) = context.environment.get("SKEIN_URL") {
            return Ok(Self { form: Form::Http(Http::named(context, url)?) });
        }
        let form = match context.home.lock_or_server().await? {
            Locked::Mine(lock) => Form::InProcess(Box::new(InProcess::open(context, lock).await?)),
            Locked::Server { url, .. } => Form::Http(Http::found(context, &url)?),
        };
        Ok(Self { form })
    }

    /// The server of this very process, as the owner of its home.
    pub(crate) fn own(token: String, url: &str) -> Result<Self, Failure> {
        Ok(Self { form: Form::Http(Http::own(token, url)?) })
    }

    /// Whether the server may be on another machine, where paths are other ones.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(&self.form, Form::Http(http) if !http.was_found())
    }

    /// Sends a request and reads the whole answer. Anything but success is a failure.
    pub(crate) async fn call(&self, call: Call) -> Result<Answer, Failure> {
        let reply = self.send(call).await?;
        let (status, raw) = (reply.status, reply.read().await?);
        match status.is_success() {
            true => Answer::new(raw),
            false => Err(Refusal::new(status, raw).failure()),
        }
    }

    /// Reads an answer that is not JSON.
    pub(crate) async fn bytes(&self, call: Call) -> Result<Bytes, Failure> {
        self.stream(call).await?.read().await
    }

    /// Opens a stream of events.
    pub(crate) async fn stream(&self, call: Call) -> Result<Reply, Failure> {
        self.open(call).await?.map_err(|refusal| refusal.failure())
    }

    /// The same for callers who know what to do about some refusals.
    pub(crate) async fn open(&self, call: Call) -> Result<Result<Reply, Refusal>, Failure> {
        let reply = self.send(call).await?;
        match reply.status.is_success() {
            true => Ok(Ok(reply)),
            false => Ok(Err(Refusal::new(reply.status, reply.read().await?))),
        }
    }

    /// Whether what was begun ends with this process.
    pub(crate) fn is_in_process(&self) -> bool {
        matches!(self.form, Form::InProcess(_))
    }

    /// Before a stream that was cut is taken up again: a server that was started anew is found again.
    pub(crate) fn reconnect(&mut self, context: &Context) {
        if let Form::Http(http) = &self.form
            && http.was_found()
            && let Ok(LockState::Held(Holder { url: Some(url), .. })) = context.home.lock_state()
            && let Ok(found) = Http::found(context, &url)
        {
            self.form = Form::Http(found);
        }
    }

    /// Finishes what this process has begun.
    pub(crate) async fn close(self) {
        match self.form {
            Form::Http(_) => {}
            Form::InProcess(in_process) => in_process.close().await,
        }
    }

    /// The last event that can come: without a server nobody else writes while this process works.
    /// Unknown with a server.
    pub(crate) async fn last_event(&self, session: &str) -> Result<Option<u64>, Failure> {
        match &self.form {
            Form::Http(_) => Ok(None),
            Form::InProcess(in_process) => in_process.last_event(session).await.map(Some),
        }
    }

    async fn send(&self, call: Call) -> Result<Reply, Failure> {
        match &self.form {
            Form::Http(http) => http.send(call).await,
            Form::InProcess(in_process) => in_process.send(call).await,
        }
    }
}

impl Call {
    pub(crate) fn get(target: Target) -> Self {
        Self::new(Method::GET, target, None)
    }

    pub(crate) fn post(target: Target, body: Value) -> Self {
        Self::new(Method::POST, target, Some(body))
    }

    pub(crate) fn delete(target: Target) -> Self {
        Self::new(Method::DELETE, target, None)
    }

    fn new(method: Method, target: Target, body: Option<Value>) -> Self {
        Self {
            method,
            target,
            body,
            last_event_id: None,
            idempotency_key: None,
            wants: Wants::Whole,
        }
    }

    /// The headers beside those that every request has.
    fn headers(&self) -> Vec<(HeaderName, String)> {
        let accept = (self.wants == Wants::Events).then(|| "text/event-stream".to_owned());
        let position = self.last_event_id.map(|seq| seq.to_string());
        let headers = [
            (header::ACCEPT, accept),
            (HeaderName::from_static("last-event-id"), position),
            (HeaderName::from_static("idempotency-key"), self.idempotency_key.clone()),
        ];
        headers.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

impl Answer {
    pub(crate) fn new(raw: Bytes) -> Result<Self, Failure> {
        let value = match raw.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&raw).map_err(|error| {
                Failure::new(Exit::Failed, "the answer is not JSON; is this a Skein server?")
                    .because(error)
            })?,
        };
        Ok(Self { raw, value })
    }
}

impl Reply {
    pub(crate) async fn read(mut self) -> Result<Bytes, Failure> {
        let mut body = Vec::new();
        while let Some(piece) = self.body.next().await {
            body.extend_from_slice(&piece?);
            if body.len() > MAX_BODY_BYTES {
                let message = format!("the answer is larger than {MAX_BODY_BYTES} bytes");
                return Err(Failure::new(Exit::Failed, message));
            }
        }
        Ok(body.into())
    }
}
