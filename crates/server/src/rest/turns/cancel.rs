//! `POST /api/sessions/{id}/turns/{turn}/cancel`

use axum::{Json, extract::State};
use skein_api::{CancelTurn, Turn};

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, Strict, TurnPath},
};

/// Ends a pending turn; it fails as `cancelled`.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/turns/{turn}/cancel",
    tag = "turns",
    params(
        ("id" = Uuid, Path, description = "The session"),
        ("turn" = Uuid, Path, description = "The turn"),
    ),
    request_body = Option<CancelTurn>,
    responses((status = 200, description = "The turn as it ended", body = Turn)),
)]
pub(crate) async fn cancel_turn(
    caller: Caller,
    State(context): State<Context>,
    path: TurnPath,
    _: Parameters<()>,
    _: Strict<CancelTurn>,
) -> Result<Json<Turn>, Problem> {
    let orchestrator = &context.app.orchestrator;
    let ended = orchestrator.cancel_turn(&caller.scope, path.session, path.turn).await?;
    Ok(Json(ended.into()))
}
