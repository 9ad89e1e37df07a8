//! `GET /api/conversation-contexts/{id}`

use axum::{Json, extract::State};
use skein_api::ConversationContext;
use skein_core::model::ConversationContextId;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId},
};

/// One conversation context, in its newest version.
#[utoipa::path(
    get,
    path = "/api/conversation-contexts/{id}",
    tag = "contexts",
    params(("id" = Uuid, Path, description = "The conversation context")),
    responses((status = 200, description = "The conversation context", body = ConversationContext)),
)]
pub(crate) async fn get_conversation_context(
    caller: Caller,
    State(context): State<Context>,
    PathId(id): PathId<ConversationContextId>,
    _: Parameters<()>,
) -> Result<Json<ConversationContext>, Problem> {
    let found = context.app.registry.conversation_context(&caller.scope, id).await?;
    Ok(Json(found.into()))
}
