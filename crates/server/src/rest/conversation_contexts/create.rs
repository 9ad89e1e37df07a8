//! `POST /api/conversation-contexts`

use axum::{Json, extract::State, response::IntoResponse};
use http::{StatusCode, header};
use skein_api::{ConversationContext, CreateConversationContext};

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Creating, Parameters, replayed},
};

/// Makes a conversation context: system prompt, model and temperature. For admins.
#[utoipa::path(
    post,
    path = "/api/conversation-contexts",
    tag = "contexts",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to send the request again")),
    request_body = CreateConversationContext,
    responses((status = 201, description = "The new conversation context", body = ConversationContext)),
)]
pub(crate) async fn create_conversation_context(
    caller: Caller,
    State(context): State<Context>,
    _: Parameters<()>,
    request: Creating<CreateConversationContext>,
) -> Result<impl IntoResponse, Problem> {
    let (new, key) = (request.body.into(), request.key.as_ref());
    let created = context.app.registry.create_conversation_context(&caller.scope, new, key).await?;
    let made = ConversationContext::from(created.value);
    let location = format!("/api/conversation-contexts/{}", made.id);
    Ok((
        StatusCode::CREATED,
        replayed(created.replayed),
        [(header::LOCATION, location)],
        Json(made),
    ))
}
