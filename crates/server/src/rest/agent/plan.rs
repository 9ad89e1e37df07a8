//! `POST /api/ai/agent/plan`

use axum::{Json, extract::State};
use skein_api::{Context, Execute};
use skein_core::intake::{self, ExecuteRequest};

use crate::{
    app::Context as Shared,
    auth::Caller,
    error::Problem,
    extract::{Parameters, Strict},
};

/// What `execute` would give to the agent. Nothing is written and nothing is sent.
#[utoipa::path(
    post,
    path = "/api/ai/agent/plan",
    tag = "agent",
    request_body = Execute,
    responses((status = 200, description = "What would be given", body = Context)),
)]
pub(crate) async fn plan(
    caller: Caller,
    State(context): State<Shared>,
    _: Parameters<()>,
    Strict(request): Strict<Execute>,
) -> Result<Json<Context>, Problem> {
    let wanted = ExecuteRequest::try_from(request)?;
    let command = intake::normalize(wanted, &context.app.platform.limits)?;
    Ok(Json(context.app.orchestrator.dry_run(&caller.scope, &command).await?.into()))
}
