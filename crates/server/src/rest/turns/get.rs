//! `GET /api/sessions/{id}/turns/{turn}`

use axum::{Json, extract::State};
use skein_api::Turn;

use crate::{
    app::Context as Shared,
    auth::Caller,
    error::Problem,
    extract::{Parameters, TurnPath},
};

/// One turn with everything that is kept of it.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/turns/{turn}",
    tag = "turns",
    params(
        ("id" = Uuid, Path, description = "The session"),
        ("turn" = Uuid, Path, description = "The turn"),
    ),
    responses((status = 200, description = "The turn", body = Turn)),
)]
pub(crate) async fn get_turn(
    caller: Caller,
    State(context): State<Shared>,
    path: TurnPath,
    _: Parameters<()>,
) -> Result<Json<Turn>, Problem> {
    let found = context.app.history.turn(&caller.scope, path.session, path.turn).await?;
    Ok(Json(found.into()))
}
