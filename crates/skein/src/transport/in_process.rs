//! The form without a server: the same router, in this process, under the home's lock.

use ::http::{Request, header};
use axum::{Router, body::Body};
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
    router: Router,
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
        let router = skein_server::router(instance.app.clone(), instance.server.clone());
        instance.app.lifecycle.set_ready();
        let token = context.token()?;
        Ok(Self { instance, router, token, lock })
    }

    pub(super) async fn send(&self, call: Call) -> Result<Reply, Failure> {
        let headers = call.headers();
        let mut request = Request::builder()
            .method(call.method)
            .uri(call.target.to_string())
            .header(header::HOST, "localhost")
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token));
        for (name, value) in headers {
            request = request.header(name, value);
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
        let response = match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let status = response.status();
        let body = response.into_body().into_data_stream();
        let cut = |error| Failure::new(Exit::Unavailable, "the answer was cut off").because(error);
        Ok(Reply { status, body: body.map_err(cut).boxed() })
    }

    pub(super) async fn last_event(&self, session: &str) -> Result<u64, Failure> {
        let missing = || Failure::new(Exit::NotFound, format!("session {session} not found"));
        let refused = |error: skein_core::Error| {
            Failure::new(Exit::NotFound, "the session cannot be read").because(error)
        };
        let session = session.parse().map_err(|_| missing())?;
        let app = &self.instance.app;
        let caller = app.people.authenticate(&self.token).await.map_err(refused)?;
        let caller =
            caller.ok_or_else(|| Failure::new(Exit::Auth, "the token opens nothing here"))?;
        let record = app.sessions.get(&caller.scope, session).await.map_err(refused)?;
        Ok(record.log.last_seq)
    }

    pub(super) async fn close(self) {
        drop(self.router);
        self.instance.close().await;
        drop(self.lock);
    }
}
