//! `POST /api/sessions`

use axum::{extract::State, response::IntoResponse};
use http::{StatusCode, header};
use skein_api::{CreateSession, Session};

use super::shown;
use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Creating, Parameters, replayed},
};

/// Opens a session.
#[utoipa::path(
    post,
    path = "/api/sessions",
    tag = "sessions",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to send the request again")),
    request_body = CreateSession,
    responses((status = 201, description = "The new session", body = Session)),
)]
pub(crate) async fn create_session(
    caller: Caller,
    State(context): State<Context>,
    _: Parameters<()>,
    request: Creating<CreateSession>,
) -> Result<impl IntoResponse, Problem> {
    let new = request.body.try_into()?;
    let created = context.app.sessions.create(&caller.scope, new, request.key.as_ref()).await?;
    let location = format!("/api/sessions/{}", created.value.session.id);
    Ok((
        StatusCode::CREATED,
        replayed(created.replayed),
        [(header::LOCATION, location)],
        shown(created.value),
    ))
}
