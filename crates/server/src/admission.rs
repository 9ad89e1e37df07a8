//! Who is let in: authentication, limits, and what becomes of a request whose caller has gone.

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{Method, StatusCode};
use metrics::counter;
use skein_core::{
    auditing::Refusal,
    model::{OrgId, UserId},
    people,
};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, debug};

use crate::{
    ServerSettings,
    app::{Context, Shared},
    auth, edge,
    error::{Code, Problem},
    limits::{InFlight, Slot},
    rate::Buckets,
    rest,
};

/// What one caller may take from the others.
#[derive(Debug)]
pub(crate) struct Admission {
    per_user: Buckets<UserId>,
    per_org: Buckets<OrgId>,
    pub(crate) in_flight: InFlight,
}

impl Admission {
    pub(crate) fn new(settings: &ServerSettings) -> Self {
        Self {
            per_user: Buckets::new(settings.rate_per_user),
            per_org: Buckets::new(settings.rate_per_org),
            in_flight: InFlight::new(settings.in_flight_per_org),
        }
    }

    /// The slot is held for as long as the request is worked on.
    fn enter(&self, caller: &people::Caller, now: Instant) -> Result<Slot<OrgId>, Problem> {
        let (user, org) = (caller.scope.user, caller.scope.org);
        let too_fast = |whose: &str, pause| {
            let detail = format!("too many requests of this {whose}; come back after the pause");
            Problem::new(Code::RateLimited, detail).after(pause)
        };
        self.per_user.take(user, now).map_err(|pause| too_fast("user", pause))?;
        self.per_org.take(org, now).map_err(|pause| too_fast("organisation", pause))?;
        self.in_flight.enter(org)
    }
}

/// Finds out who is calling, holds them to their limits, and lets the request run to its end.
///
/// Whether a caller is needed is for the handler to say. Health checks are never held up.
pub(crate) async fn admit(
    State(context): State<Context>,
    mut request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    if route.as_ref().is_some_and(|route| rest::is_open(route.as_str())) {
        return next.run(request).await;
    }
    let caller = match auth::identify(&context, request.headers()).await {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    // Nobody who is unknown can change anything.
    let Some(caller) = caller else { return next.run(request).await };
    let slot = match context.admission.enter(&caller, Instant::now()) {
        Ok(slot) => slot,
        Err(problem) => return problem.into_response(),
    };
    request.extensions_mut().insert(auth::Caller(caller.clone()));
    let only_reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let place = route.as_ref().map_or("none", MatchedPath::as_str);
    let asked = format!("{} {place}", request.method());
    let requests = context.app.requests.clone();
    let work = async move {
        let _slot = slot;
        let response = next.run(request).await;
        audit_refusal(&context, &caller, &response, asked);
        response
    };
    if only_reads { work.await } else { to_the_end(&requests, work).await }
}

/// A request that changes something runs in a task of its own: a caller who disconnects leaves it either undone or
/// done, never half done.
async fn to_the_end(
    requests: &TaskTracker,
    work: impl Future<Output = Response> + Send + 'static,
) -> Response {
    match requests.spawn(work.in_current_span()).await {
        Ok(response) => response,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => edge::panicked(panic),
            Err(cancelled) => {
                debug!(error = %cancelled, "a request was given up at the end of the program");
                Problem::internal().into_response()
            }
        },
    }
}

/// What a known caller was refused is kept, once per request that the limits have let in.
fn audit_refusal(context: &Shared, caller: &people::Caller, response: &Response, request: String) {
    let Some(problem) = response.extensions().get::<Problem>() else { return };
    let Some(refusal) = refusal(problem) else { return };
    if !context.app.auditing.refused(&caller.scope, problem.code.as_str(), request, refusal) {
        counter!("skein_refusals_not_audited_total").increment(1);
    }
}

/// What was not understood is a mistake and no attempt at anything; what was said to be missing may be, and nobody but
/// the store knows; and what comes at a bad time or too often is no more than that.
fn refusal(problem: &Problem) -> Option<Refusal> {
    match problem.code.status() {
        StatusCode::FORBIDDEN => Some(Refusal::Access),
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => {
            Some(Refusal::Request { reason: problem.detail().to_owned() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{sync::oneshot, time::timeout};

    use super::*;

    #[test]
    fn what_was_understood_and_refused_is_audited() {
        let audited = |code: &&Code| refusal(&Problem::new(**code, "why")).is_some();

        let codes: Vec<_> = Code::ALL.iter().filter(audited).map(|code| code.as_str()).collect();

        assert_eq!(
            codes,
            [
                "forbidden",
                "origin_not_allowed",
                "payload_too_large",
                "empty_instruction",
                "path_outside_workspace",
                "not_a_repository",
                "unknown_reference",
                "hash_mismatch",
                "idempotency_key_reused",
            ]
        );
        let because = Refusal::Request { reason: "why".to_owned() };
        assert_eq!(refusal(&Problem::new(Code::Forbidden, "why")), Some(Refusal::Access));
        assert_eq!(refusal(&Problem::new(Code::HashMismatch, "why")), Some(because));
    }

    #[tokio::test]
    async fn work_goes_on_when_its_caller_has_gone() {
        let requests = TaskTracker::new();
        let (go_on, waits) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let work = async move {
            waits.await.unwrap();
            done.send(()).unwrap();
            Response::default()
        };

        let caller = timeout(Duration::ZERO, to_the_end(&requests, work)).await;
        go_on.send(()).unwrap();

        assert!(caller.is_err());
        is_done.await.unwrap();
        requests.close();
        requests.wait().await;
    }

    #[tokio::test]
    async fn a_panic_in_the_task_is_an_internal_error() {
        let response = to_the_end(&TaskTracker::new(), async { panic!("no") }).await;

        let problem = response.extensions().get::<Problem>().unwrap();
        assert_eq!(problem.code, Code::Internal);
    }
}
