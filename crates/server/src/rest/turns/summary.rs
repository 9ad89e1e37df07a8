//! `GET /api/sessions/{id}/turns/{turn}/summary`

use axum::{Json, extract::State};
use skein_api::TurnSummary;

use crate::{
    app::Context as Shared,
    auth::Caller,
    error::Problem,
    extract::{Parameters, TurnPath},
};

/// One turn at a glance.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/turns/{turn}/summary",
    tag = "turns",
    params(
        ("id" = Uuid, Path, description = "The session"),
        ("turn" = Uuid, Path, description = "The turn"),
    ),
    responses((status = 200, description = "The turn", body = TurnSummary)),
)]
pub(crate) async fn summarize_turn(
    caller: Caller,
    State(context): State<Shared>,
    path: TurnPath,
    _: Parameters<()>,
) -> Result<Json<TurnSummary>, Problem> {
    let found = context.app.history.turn(&caller.scope, path.session, path.turn).await?;
    Ok(Json(found.into()))
}
