//! `POST /api/sessions/{id}/resume`

use axum::{extract::State, response::IntoResponse};
use skein_api::{ResumeSession, Session};
use skein_core::model::SessionId;

use super::shown;
use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId, Strict},
};

/// Takes a suspended session up again, and with it the turns that waited.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/resume",
    tag = "sessions",
    params(("id" = Uuid, Path, description = "The session")),
    request_body = Option<ResumeSession>,
    responses((status = 200, description = "The active session", body = Session)),
)]
pub(crate) async fn resume_session(
    caller: Caller,
    State(context): State<Context>,
    PathId(session): PathId<SessionId>,
    _: Parameters<()>,
    Strict(request): Strict<ResumeSession>,
) -> Result<impl IntoResponse, Problem> {
    let resumed = context.app.sessions.resume(&caller.scope, session, request.interface).await?;
    Ok(shown(resumed))
}
