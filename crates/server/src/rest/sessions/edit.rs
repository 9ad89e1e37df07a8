//! `PATCH /api/sessions/{id}`

use axum::{extract::State, response::IntoResponse};
use skein_api::{EditSession, Session};
use skein_core::model::SessionId;

use super::shown;
use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{IfMatch, Parameters, PathId, Strict},
};

/// Replaces the given fields; null clears one.
#[utoipa::path(
    patch,
    path = "/api/sessions/{id}",
    tag = "sessions",
    params(
        ("id" = Uuid, Path, description = "The session"),
        ("If-Match" = Option<String>, Header, description = "The session's ETag, if nobody else may have changed it", example = "\"r1\""),
    ),
    request_body = EditSession,
    responses((status = 200, description = "The session as it is now", body = Session)),
)]
pub(crate) async fn edit_session(
    caller: Caller,
    State(context): State<Context>,
    PathId(session): PathId<SessionId>,
    (_, IfMatch(revision)): (Parameters<()>, IfMatch),
    Strict(edit): Strict<EditSession>,
) -> Result<impl IntoResponse, Problem> {
    let edited = context.app.sessions.edit(&caller.scope, session, edit.into(), revision).await?;
    Ok(shown(edited))
}
