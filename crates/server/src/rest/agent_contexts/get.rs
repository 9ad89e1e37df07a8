//! `GET /api/agent-contexts/{id}`

use axum::{Json, extract::State};
use skein_api::AgentContext;
use skein_core::model::AgentContextId;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId},
};

/// One agent context, in its newest version.
#[utoipa::path(
    get,
    path = "/api/agent-contexts/{id}",
    tag = "contexts",
    params(("id" = Uuid, Path, description = "The agent context")),
    responses((status = 200, description = "The agent context", body = AgentContext)),
)]
pub(crate) async fn get_agent_context(
    caller: Caller,
    State(context): State<Context>,
    PathId(id): PathId<AgentContextId>,
    _: Parameters<()>,
) -> Result<Json<AgentContext>, Problem> {
    let found = context.app.registry.agent_context(&caller.scope, id).await?;
    Ok(Json(found.into()))
}
