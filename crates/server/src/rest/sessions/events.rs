//! `GET /api/sessions/{id}/events`

use axum::{extract::State, response::Response};
use http::HeaderMap;
use skein_core::model::SessionId;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Known, Parameters, PathId, event_position},
    sse::EventStream,
};

pub(crate) struct From;

impl Known for From {
    const NAMES: &'static [&'static str] = &["after"];
}

/// The session's events as server-sent events: from a position on, or from now on. Stays open.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/events",
    tag = "sessions",
    params(
        ("id" = Uuid, Path, description = "The session"),
        ("after" = Option<u64>, Query, description = "The last event that was seen; 0: from the start"),
        ("Last-Event-ID" = Option<u64>, Header, description = "As `after`, and stronger"),
    ),
    responses((status = 200, description = "Events; the data of each is an Event", body = String, content_type = "text/event-stream")),
)]
pub(crate) async fn follow_events(
    caller: Caller,
    State(context): State<Context>,
    PathId(session): PathId<SessionId>,
    parameters: Parameters<From>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = event_position(&headers, parameters.position("after")?)?;
    let slot = context.streams.enter(caller.scope.user)?;
    let reader = context.app.history.follow(&caller.scope, session, after).await?;
    Ok(EventStream::new(context, caller.0, slot, session, reader).into_response())
}
