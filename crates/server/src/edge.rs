//! What happens to every request on its way in and to every answer on its way out.

use std::{any::Any, time::Instant};

use axum::{
    body::Body,
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use tracing::{Instrument, debug, error, info_span};

use crate::{app::Context, error::Problem, metrics};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MAX_REQUEST_ID_BYTES: usize = 128;

/// Gives the request its id, checks host and origin, completes the answer, and counts it.
pub(crate) async fn edge(State(context): State<Context>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(&context, request.headers());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let span = info_span!("request", id = id.to_str().unwrap_or_default());

    let answer = match context.hosts.check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).instrument(span.clone()).await,
        Err(problem) => problem.into_response(),
    };

    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    if let Some(problem) = answer.extensions().get::<Problem>() {
        span.in_scope(|| context.refusals.note(problem, route));
    }
    let response = span.in_scope(|| complete(answer, id));
    let status = response.status();
    span.in_scope(|| debug!(%method, route, status = status.as_u16(), "answered"));
    metrics::count_request(route, &method, status, started.elapsed());
    response
}

/// A panic is a bug here: it is logged, and the caller learns no more than that.
pub(crate) fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    error!(panic = text.unwrap_or("of an unknown kind"), "a handler panicked");
    Problem::internal().into_response()
}

fn complete(mut response: Response, id: HeaderValue) -> Response {
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        response = written(response, &problem, id.to_str().unwrap_or_default());
    }
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// The problem's body on the response that carries it.
fn written(mut response: Response, problem: &Problem, id: &str) -> Response {
    if let Some(cause) = problem.cause() {
        error!(code = problem.code.as_str(), cause, "a request failed");
    }
    let body = serde_json::to_vec(&problem.to_wire(id)).unwrap_or_default();
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    *response.body_mut() = Body::from(body);
    response
}

/// The caller's own id if it is harmless, so that its logs and ours can be read together.
fn request_id(context: &Context, headers: &HeaderMap) -> HeaderValue {
    let harmless = |value: &&HeaderValue| {
        (1..=MAX_REQUEST_ID_BYTES).contains(&value.len())
            && value.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    headers.get(REQUEST_ID).filter(harmless).cloned().unwrap_or_else(|| {
        let mut buffer = uuid::Uuid::encode_buffer();
        let text = context.app.platform.new_id().hyphenated().encode_lower(&mut buffer);
        HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("none"))
    })
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_answered_like_any_failure_and_says_nothing_of_its_cause() {
        let id = HeaderValue::from_static("r-7");

        let response = complete(panicked(Box::new("/secret/path".to_owned())), id);

        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        assert_eq!(parts.status, 500);
        assert_eq!(parts.headers["content-type"], "application/problem+json");
        assert_eq!(parts.headers["x-request-id"], "r-7");
        assert_eq!(parts.headers["cache-control"], "no-store");
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(&body).unwrap(),
            json!({
                "type": "/problems/internal",
                "title": "Something went wrong here",
                "status": 500,
                "code": "internal",
                "detail": "the request failed; the server's log says why",
                "requestId": "r-7",
                "retryable": false,
            })
        );
    }
}
