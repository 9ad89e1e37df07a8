//! `POST /api/sessions/{id}/permissions/{requestId}`

use axum::{Json, extract::State};
use skein_api::{AnswerPermission, Permission};

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PermissionPath, Strict},
};

/// Answers a question, or calls it off. The agent goes on once the answer is durable.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/permissions/{requestId}",
    tag = "sessions",
    params(
        ("id" = Uuid, Path, description = "The session"),
        ("requestId" = String, Path, description = "The question"),
    ),
    request_body = AnswerPermission,
    responses((status = 200, description = "The settled question", body = Permission)),
)]
pub(crate) async fn answer_permission(
    caller: Caller,
    State(context): State<Context>,
    path: PermissionPath,
    _: Parameters<()>,
    Strict(answer): Strict<AnswerPermission>,
) -> Result<Json<Permission>, Problem> {
    let reply = answer.try_into()?;
    let permissions = &context.app.permissions;
    let settled = permissions.answer(&caller.scope, path.session, &path.request_id, reply).await?;
    Ok(Json(settled.into()))
}
