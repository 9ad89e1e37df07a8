//! `PUT /api/conversation-contexts/{id}`

use axum::{Json, extract::State};
use skein_api::{ChangeConversationContext, ConversationContext};
use skein_core::model::ConversationContextId;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId, Strict},
};

/// Adds a version. Sessions go on with the one they started with. For admins.
#[utoipa::path(
    put,
    path = "/api/conversation-contexts/{id}",
    tag = "contexts",
    params(("id" = Uuid, Path, description = "The conversation context")),
    request_body = ChangeConversationContext,
    responses((status = 200, description = "The new version", body = ConversationContext)),
)]
pub(crate) async fn change_conversation_context(
    caller: Caller,
    State(context): State<Context>,
    PathId(id): PathId<ConversationContextId>,
    _: Parameters<()>,
    Strict(change): Strict<ChangeConversationContext>,
) -> Result<Json<ConversationContext>, Problem> {
    let registry = &context.app.registry;
    let changed = registry.change_conversation_context(&caller.scope, id, change.into()).await?;
    Ok(Json(changed.into()))
}
