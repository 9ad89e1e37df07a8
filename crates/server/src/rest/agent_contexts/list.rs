//! `GET /api/agent-contexts`

use axum::{Json, extract::State};
use skein_api::AgentContextList;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::Parameters,
    rest::paging::{Page, Paging},
};

/// The organisation's agent contexts and the configured ones, oldest first.
#[utoipa::path(
    get,
    path = "/api/agent-contexts",
    tag = "contexts",
    params(Paging),
    responses((status = 200, description = "A page of agent contexts", body = AgentContextList)),
)]
pub(crate) async fn list_agent_contexts(
    caller: Caller,
    State(context): State<Context>,
    parameters: Parameters<Paging>,
) -> Result<Json<AgentContextList>, Problem> {
    let page = Page::new(&parameters, &context.settings)?;
    let registry = &context.app.registry;
    let read = registry.list_agent_contexts(&caller.scope, page.after, page.to_read()).await?;
    let (agent_contexts, next_cursor) = page.cut(read, |version| version.context.id);
    Ok(Json(AgentContextList { agent_contexts, next_cursor }))
}
