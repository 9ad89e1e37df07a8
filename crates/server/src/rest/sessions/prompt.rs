//! `POST /api/sessions/{id}/prompt`

use axum::{extract::State, response::IntoResponse};
use skein_api::{AcceptedTurn, Prompt};
use skein_core::{
    intake::{self, ExecuteRequest},
    model::SessionId,
};

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Creating, Parameters, PathId},
    rest::turns::accepted,
};

/// Gives the session an instruction. The answer comes as events and as the turn's outcome.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/prompt",
    tag = "sessions",
    params(
        ("id" = Uuid, Path, description = "The session"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to send the request again"),
    ),
    request_body = Prompt,
    responses((status = 202, description = "The turn is durable and will be run", body = AcceptedTurn)),
)]
pub(crate) async fn prompt_session(
    caller: Caller,
    State(context): State<Context>,
    PathId(session): PathId<SessionId>,
    _: Parameters<()>,
    request: Creating<Prompt>,
) -> Result<impl IntoResponse, Problem> {
    let prompt = ExecuteRequest {
        session: Some(session),
        instruction: request.body.text,
        on_busy: request.body.on_busy.unwrap_or_default().into(),
        ..ExecuteRequest::default()
    };
    let command = intake::normalize(prompt, &context.app.platform.limits)?;
    let orchestrator = &context.app.orchestrator;
    let turn = orchestrator.accept(&caller.scope, command, request.key.as_ref()).await?;
    Ok(accepted(&turn))
}
