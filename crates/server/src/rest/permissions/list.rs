//! `GET /api/sessions/{id}/permissions`

use axum::{Json, extract::State};
use skein_api::Permission;
use skein_core::model::SessionId;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId},
};

/// The newest thousand questions of the session's agent, oldest of them first.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/permissions",
    tag = "sessions",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The questions", body = Vec<Permission>)),
)]
pub(crate) async fn list_permissions(
    caller: Caller,
    State(context): State<Context>,
    PathId(session): PathId<SessionId>,
    _: Parameters<()>,
) -> Result<Json<Vec<Permission>>, Problem> {
    let asked = context.app.permissions.list(&caller.scope, session).await?;
    Ok(Json(asked.into_iter().map(Permission::from).collect()))
}
