//! `GET /api/sessions/{id}/turns/last`

use axum::{Json, extract::State};
use skein_api::Turn;
use skein_core::model::SessionId;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId},
};

/// The newest turn, whatever its status.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/turns/last",
    tag = "turns",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The turn", body = Turn)),
)]
pub(crate) async fn last_turn(
    caller: Caller,
    State(context): State<Context>,
    PathId(session): PathId<SessionId>,
    _: Parameters<()>,
) -> Result<Json<Turn>, Problem> {
    let turn = context.app.history.last_turn(&caller.scope, session).await?;
    Ok(Json(turn.into()))
}
