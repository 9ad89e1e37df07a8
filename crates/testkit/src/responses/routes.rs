//! The routes of the API.

use std::{collections::HashMap, future::pending, sync::Arc};

use axum::{
    Extension, Json, Router,
    body::{Body, to_bytes},
    extract::{Path, Query, Request, State as Shared},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use serde_json::{Value, json};

use super::{
    admin,
    error::ApiError,
    record::{Keeping, Record, StopWhenDropped},
    request::CreateRequest,
    script::{On, Refusal, Script, Wire},
    state::State,
    wire::{self, Cut},
};

type Server = Shared<Arc<State>>;
type Answered = Result<Response, ApiError>;

pub(super) fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/responses", post(create))
        .route("/v1/responses/{id}", get(retrieve).delete(delete))
        .route("/v1/responses/{id}/cancel", post(cancel))
        .fallback(no_such_url)
        .method_not_allowed_fallback(not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(&state), record))
        .merge(admin::router())
        .with_state(state)
}

/// Every request is noted before anything is made of it, and needs the key.
async fn record(Shared(state): Server, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return ApiError::invalid("the body could not be read").into_response();
    };
    let place = state.ledger.record(&parts, &body);
    let mut response = match check_key(&state, &parts.headers) {
        Ok(()) => next.run(Request::from_parts(parts, Body::from(body))).await,
        Err(error) => error.into_response(),
    };
    state.ledger.answered(place, response.status().as_u16());
    if let Ok(id) = HeaderValue::from_str(&format!("req_{place:032x}")) {
        response.headers_mut().insert("x-request-id", id);
    }
    response
}

fn check_key(state: &State, headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(expected) = &state.settings.key else { return Ok(()) };
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(sent) = sent.and_then(|value| value.strip_prefix("Bearer ")) else {
        return Err(ApiError::invalid(
            "You didn't provide an API key. You need to provide your API key in an Authorization header \
             using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
        )
        .with_status(StatusCode::UNAUTHORIZED));
    };
    if sent == expected {
        return Ok(());
    }
    // The API shows the end of the key that it was given.
    let tail: String = sent.chars().skip(sent.chars().count().saturating_sub(4)).collect();
    Err(ApiError::invalid(format!("Incorrect API key provided: ****{tail}."))
        .with_status(StatusCode::UNAUTHORIZED)
        .with_code("invalid_api_key"))
}

async fn create(
    Shared(state): Server,
    Extension(cut): Extension<Cut>,
    headers: HeaderMap,
    body: Bytes,
) -> Answered {
    let request = read(&headers, &body)?;
    if let Some(refusal) = state.queue().take_refusal(On::Create, request.instruction()) {
        return Ok(refused(&refusal));
    }
    let context = state.context(&request)?;
    let script = state.queue().take(On::Create, request.instruction());
    let (answer, fault) = script.map(|script| (script.answer, script.wire)).unwrap_or_default();
    let record = state.dispatch(&request, context, answer);
    // In the foreground the model works only as long as somebody waits for it.
    let waiting = (!request.background).then(|| StopWhenDropped(Arc::clone(&record)));
    before_headers(fault, &cut).await;
    if request.stream {
        return Ok(event_stream(wire::body(events(&record, None), fault, cut, waiting)));
    }
    if !request.background {
        record.wait_until_final().await;
    }
    let response = record.response();
    // Only the `error` event leaves a failed response without the event that says so.
    let ended_in_error = response["status"] == "failed" && ends_in_error(&record);
    if ended_in_error {
        let message = response["error"]["message"].as_str().unwrap_or_default();
        return Err(ApiError::server(message));
    }
    Ok(json_reply(&response, fault, cut))
}

fn read(headers: &HeaderMap, body: &Bytes) -> Result<CreateRequest, ApiError> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.unwrap_or_default();
    if kind.split(';').next().unwrap_or_default().trim() != "application/json" {
        return Err(ApiError::invalid(format!(
            "Unsupported content type: '{kind}'. This API method only accepts 'application/json' requests."
        ))
        .with_code("unsupported_content_type"));
    }
    let body: Value = serde_json::from_slice(body).map_err(|error| {
        ApiError::invalid(format!("We could not parse the JSON body of your request. ({error})"))
    })?;
    CreateRequest::read(body)
}

async fn retrieve(
    Shared(state): Server,
    Extension(cut): Extension<Cut>,
    Path(id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Answered {
    let script = state.queue().take(On::Retrieve, "");
    if let Some(refusal) = script.as_ref().and_then(|script| script.refuse.as_ref()) {
        return Ok(refused(refusal));
    }
    let fault = script.and_then(|script: Script| script.wire);
    let record = state.known(&id)?;
    let start = stream_start(&query)?;
    before_headers(fault, &cut).await;
    let Some(start) = start else { return Ok(json_reply(&record.response(), fault, cut)) };
    if !(record.background && record.streamed) {
        return Err(ApiError::invalid(
            "This response cannot be streamed because it was not created with background=true and stream=true.",
        )
        .with_param("stream"));
    }
    Ok(event_stream(wire::body(events(&record, start.after), fault, cut, ())))
}

/// Where a stream is to be taken up.
struct StreamStart {
    after: Option<usize>,
}

fn stream_start(query: &HashMap<String, String>) -> Result<Option<StreamStart>, ApiError> {
    const KNOWN: [&str; 4] = ["stream", "starting_after", "include", "include_obfuscation"];
    if let Some(name) = query.keys().find(|name| {
        let name = name.trim_end_matches("[]");
        !KNOWN.contains(&name)
    }) {
        return Err(ApiError::invalid(format!("Unknown parameter: '{name}'."))
            .with_param(name)
            .with_code("unknown_parameter"));
    }
    let stream = match query.get("stream").map(String::as_str) {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            return Err(ApiError::invalid(format!("Invalid value: '{other}'."))
                .with_param("stream")
                .with_code("invalid_value"));
        }
    };
    let Some(text) = query.get("starting_after") else {
        return Ok(stream.then_some(StreamStart { after: None }));
    };
    match text.parse() {
        Ok(after) if stream => Ok(Some(StreamStart { after: Some(after) })),
        Ok(_) => Err(ApiError::invalid("'starting_after' is only allowed with 'stream=true'.")
            .with_param("starting_after")),
        Err(_) => Err(ApiError::invalid(format!(
            "Invalid type for 'starting_after': expected an integer, but got '{text}' instead."
        ))
        .with_param("starting_after")
        .with_code("invalid_type")),
    }
}

async fn cancel(
    Shared(state): Server,
    Extension(cut): Extension<Cut>,
    Path(id): Path<String>,
) -> Answered {
    let script = state.queue().take(On::Cancel, "");
    if let Some(refusal) = script.as_ref().and_then(|script| script.refuse.as_ref()) {
        return Ok(refused(refusal));
    }
    let fault = script.and_then(|script| script.wire);
    let record = state.known(&id)?;
    if !record.background {
        return Err(ApiError::invalid("Cannot cancel a synchronous response."));
    }
    record.stop.cancel();
    record.cancel();
    before_headers(fault, &cut).await;
    Ok(json_reply(&record.response(), fault, cut))
}

async fn delete(Shared(state): Server, Path(id): Path<String>) -> Answered {
    let record = state.known(&id)?;
    record.keep(Keeping::Gone);
    record.stop.cancel();
    Ok(Json(json!({"id": id, "object": "response", "deleted": true})).into_response())
}

async fn models() -> Json<Value> {
    let model = |id: &str| json!({"id": id, "object": "model", "created": 1_760_000_000, "owned_by": "skein"});
    Json(json!({"object": "list", "data": [model("test-model"), model("other-model")]}))
}

async fn no_such_url(request: Request) -> ApiError {
    ApiError::invalid(format!("Invalid URL ({} {})", request.method(), request.uri().path()))
        .with_status(StatusCode::NOT_FOUND)
}

async fn not_allowed(request: Request) -> ApiError {
    ApiError::invalid(format!("Not allowed to {} on {}.", request.method(), request.uri().path()))
        .with_status(StatusCode::METHOD_NOT_ALLOWED)
        .with_code("method_not_supported")
}

async fn before_headers(fault: Option<Wire>, cut: &Cut) {
    match fault {
        Some(Wire::CloseBeforeHeaders) => cut.now(),
        Some(Wire::StallBeforeHeaders) => {}
        _ => return,
    }
    pending().await
}

/// The events of a response after the one with this number: those that are there, then the others as they come.
fn events(record: &Arc<Record>, after: Option<usize>) -> BoxStream<'static, Bytes> {
    let progress = record.progress.subscribe();
    // The record is the sender of its own progress, so the stream keeps it.
    let state = (Arc::clone(record), progress, 0_usize, after);
    stream::unfold(state, |(record, mut progress, mut next, after)| async move {
        loop {
            let (step, ended) = {
                let now = progress.borrow_and_update();
                (now.steps.get(next).cloned(), now.status.is_final())
            };
            match step {
                Some(step) => {
                    next += 1;
                    // Raw bytes have no number, and come again only with what is around them.
                    let known = after.is_some_and(|after| {
                        step.sequence_number.is_none_or(|number| number <= after)
                    });
                    if !known {
                        return Some((step.bytes, (record, progress, next, None)));
                    }
                }
                None if ended => return None,
                None => progress.changed().await.ok()?,
            }
        }
    })
    .boxed()
}

fn ends_in_error(record: &Record) -> bool {
    let progress = record.progress.borrow();
    progress.steps.last().is_some_and(|step| step.bytes.starts_with(b"event: error\n"))
}

fn event_stream(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, body).into_response()
}

fn json_reply(response: &Value, fault: Option<Wire>, cut: Cut) -> Response {
    if fault.is_none() {
        return Json(response).into_response();
    }
    let block = Bytes::from(response.to_string());
    let body = wire::body(stream::iter([block]).boxed(), fault, cut, ());
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn refused(refusal: &Refusal) -> Response {
    let (kind, text) = refusal.body();
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, [(header::CONTENT_TYPE, kind)], text).into_response();
    for (name, value) in &refusal.headers {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
