//! One way to the REST API with two forms: HTTP to a server, or the same router in this process.

mod http;
mod in_process;
mod problem;
mod sse;
mod target;

use ::http::{Method, StatusCode};
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use serde_json::Value;

use crate::{
    commands::Context,
    failure::{Exit, Failure},
    home::{Holder, LockState, Locked},
};
use http::Http;
pub(crate) use http::is_ready;
use in_process::InProcess;
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

    /// Sends a request and reads the whole answer. Anything but success is a failure.
    pub(crate) async fn call(&self, call: Call) -> Result<Answer, Failure> {
        let reply = self.send(call).await?;
        let (status, raw) = (reply.status, reply.read().await?);
        if !status.is_success() {
            return Err(problem::failure(status, &raw));
        }
        let value = match raw.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&raw).map_err(|error| {
                Failure::new(Exit::Failed, "the answer is not JSON; is this a Skein server?")
                    .because(error)
            })?,
        };
        Ok(Answer { raw, value })
    }

    /// Opens a stream of events.
    pub(crate) async fn stream(&self, call: Call) -> Result<Reply, Failure> {
        let reply = self.send(call).await?;
        match reply.status.is_success() {
            true => Ok(reply),
            false => {
                let (status, raw) = (reply.status, reply.read().await?);
                Err(problem::failure(status, &raw))
            }
        }
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
        Self { method: Method::GET, target, body: None, last_event_id: None }
    }

    pub(crate) fn post(target: Target, body: Value) -> Self {
        Self { method: Method::POST, target, body: Some(body), last_event_id: None }
    }

    pub(crate) fn delete(target: Target) -> Self {
        Self { method: Method::DELETE, target, body: None, last_event_id: None }
    }
}

impl Reply {
    async fn read(mut self) -> Result<Bytes, Failure> {
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
