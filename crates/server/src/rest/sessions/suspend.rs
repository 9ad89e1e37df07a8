//! `POST /api/sessions/{id}/suspend`

use axum::{extract::State, response::IntoResponse};
use skein_api::{Session, SuspendSession};
use skein_core::model::SessionId;

use super::shown;
use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId, Strict},
};

/// Puts the session aside with a checkpoint; queued turns wait until it is resumed.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/suspend",
    tag = "sessions",
    params(("id" = Uuid, Path, description = "The session")),
    request_body = Option<SuspendSession>,
    responses((status = 200, description = "The suspended session", body = Session)),
)]
pub(crate) async fn suspend_session(
    caller: Caller,
    State(context): State<Context>,
    PathId(session): PathId<SessionId>,
    _: Parameters<()>,
    Strict(request): Strict<SuspendSession>,
) -> Result<impl IntoResponse, Problem> {
    let busy = request.busy();
    let suspended =
        context.app.sessions.suspend(&caller.scope, session, request.reason, busy).await?;
    Ok(shown(suspended))
}
