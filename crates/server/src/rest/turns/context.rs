//! `GET /api/sessions/{id}/turns/{turn}/context`

use axum::{Json, extract::State};
use skein_api::Context;

use crate::{
    app::Context as Shared,
    auth::Caller,
    error::Problem,
    extract::{Parameters, TurnPath},
};

/// What the turn's agent was given, what was kept back, and why.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/turns/{turn}/context",
    tag = "turns",
    params(
        ("id" = Uuid, Path, description = "The session"),
        ("turn" = Uuid, Path, description = "The turn"),
    ),
    responses((status = 200, description = "What was given", body = Context)),
)]
pub(crate) async fn turn_context(
    caller: Caller,
    State(context): State<Shared>,
    path: TurnPath,
    _: Parameters<()>,
) -> Result<Json<Context>, Problem> {
    let found = context.app.history.turn_context(&caller.scope, path.session, path.turn).await?;
    Ok(Json(found.into()))
}
