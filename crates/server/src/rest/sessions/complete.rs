//! `POST /api/sessions/{id}/complete`

use axum::{extract::State, response::IntoResponse};
use skein_api::{CompleteSession, Session};
use skein_core::model::SessionId;

use super::shown;
use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId, Strict},
};

/// Ends the session as its owner wanted. Completing it again changes nothing.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/complete",
    tag = "sessions",
    params(("id" = Uuid, Path, description = "The session")),
    request_body = Option<CompleteSession>,
    responses((status = 200, description = "The completed session", body = Session)),
)]
pub(crate) async fn complete_session(
    caller: Caller,
    State(context): State<Context>,
    PathId(session): PathId<SessionId>,
    _: Parameters<()>,
    Strict(request): Strict<CompleteSession>,
) -> Result<impl IntoResponse, Problem> {
    let ended = context.app.sessions.complete(&caller.scope, session, request.busy()).await?;
    Ok(shown(ended))
}
