//! `POST /api/agent-contexts`

use axum::{Json, extract::State, response::IntoResponse};
use http::{StatusCode, header};
use skein_api::{AgentContext, CreateAgentContext};

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Creating, Parameters, replayed},
};

/// Makes an agent context: a configured agent with some of its settings replaced. For admins.
#[utoipa::path(
    post,
    path = "/api/agent-contexts",
    tag = "contexts",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to send the request again")),
    request_body = CreateAgentContext,
    responses((status = 201, description = "The new agent context", body = AgentContext)),
)]
pub(crate) async fn create_agent_context(
    caller: Caller,
    State(context): State<Context>,
    _: Parameters<()>,
    request: Creating<CreateAgentContext>,
) -> Result<impl IntoResponse, Problem> {
    let (new, key) = (request.body.into(), request.key.as_ref());
    let created = context.app.registry.create_agent_context(&caller.scope, new, key).await?;
    let made = AgentContext::from(created.value);
    let location = format!("/api/agent-contexts/{}", made.id);
    Ok((
        StatusCode::CREATED,
        replayed(created.replayed),
        [(header::LOCATION, location)],
        Json(made),
    ))
}
