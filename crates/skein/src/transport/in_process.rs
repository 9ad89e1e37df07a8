//! The form without a server: the same router, in this process, under the home's lock.

use ::http::{Request, header};
use axum::body::Body;
use futures::{StreamExt, TryStreamExt};
use tower::ServiceExt;

use super::{Call, Reply};
use crate::{
    commands::Context,
    failure::{Exit, Failure},
    home::HomeLock,
    wiring::Instance,
};

/// Skein in this process.
pub(crate) struct InProcess {
    instance: Instance,
    token: String,
    /// Released last, when nothing works on the home any more.
    lock: HomeLock,
}

impl InProcess {
    pub(super) async fn open(context: &Context, lock: HomeLock) -> Result<Self, Failure> {
        let config = context.load_config()?;
        context.start_quiet_log(&config)?;
        let instance = Instance::open(&context.home, &config).await?;
        // Turns that a crash cut off are ended; queued ones wait for a server.
        instance.recover().await?;
        let token = context.token()?;
        Ok(Self { instance, token, lock })
    }

    pub(super) async fn send(&self, call: Call) -> Result<Reply, Failure> {
        let mut request = Request::builder()
            .method(call.method)
            .uri(call.target.to_string())
            .header(header::HOST, "localhost")
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token));
        if let Some(seq) = call.last_event_id {
            request = request.header("last-event-id", seq);
        }
        let body = match call.body {
            Some(body) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                Body::from(body.to_string())
            }
            None => Body::empty(),
        };
        let request = request.body(body).map_err(|error| {
            Failure::new(Exit::Usage, "this request cannot be made").because(error)
        })?;
        let response = match self.instance.router().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let status = response.status();
        let body = response.into_body().into_data_stream();
        let cut = |error| Failure::new(Exit::Unavailable, "the answer was cut off").because(error);
        Ok(Reply { status, body: body.map_err(cut).boxed() })
    }

    pub(super) async fn close(self) {
        self.instance.close().await;
        drop(self.lock);
    }
}
