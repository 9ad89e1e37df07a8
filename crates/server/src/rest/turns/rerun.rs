//! `POST /api/sessions/{id}/turns/{turn}/rerun`

use axum::{extract::State, response::IntoResponse};
use skein_api::{AcceptedTurn, Rerun};

use super::accepted;
use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Creating, Parameters, TurnPath},
};

/// Runs the turn's instruction again, as a new turn.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/turns/{turn}/rerun",
    tag = "turns",
    params(
        ("id" = Uuid, Path, description = "The session"),
        ("turn" = Uuid, Path, description = "The turn to repeat"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to send the request again"),
    ),
    request_body = Option<Rerun>,
    responses((status = 202, description = "The new turn is durable and will be run", body = AcceptedTurn)),
)]
pub(crate) async fn rerun_turn(
    caller: Caller,
    State(context): State<Context>,
    path: TurnPath,
    _: Parameters<()>,
    request: Creating<Rerun>,
) -> Result<impl IntoResponse, Problem> {
    let repeated = (path.session, path.turn);
    let (rerun, key) = (request.body.into(), request.key.as_ref());
    let turn = context.app.orchestrator.rerun(&caller.scope, repeated, rerun, key).await?;
    Ok(accepted(&turn))
}
