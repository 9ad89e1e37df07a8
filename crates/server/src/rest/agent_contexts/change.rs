//! `PUT /api/agent-contexts/{id}`

use axum::{Json, extract::State};
use skein_api::{AgentContext, ChangeAgentContext};
use skein_core::model::AgentContextId;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId, Strict},
};

/// Adds a version. Sessions go on with the one they started with. For admins.
#[utoipa::path(
    put,
    path = "/api/agent-contexts/{id}",
    tag = "contexts",
    params(("id" = Uuid, Path, description = "The agent context")),
    request_body = ChangeAgentContext,
    responses((status = 200, description = "The new version", body = AgentContext)),
)]
pub(crate) async fn change_agent_context(
    caller: Caller,
    State(context): State<Context>,
    PathId(id): PathId<AgentContextId>,
    _: Parameters<()>,
    Strict(change): Strict<ChangeAgentContext>,
) -> Result<Json<AgentContext>, Problem> {
    let registry = &context.app.registry;
    let changed = registry.change_agent_context(&caller.scope, id, change.into()).await?;
    Ok(Json(changed.into()))
}
