//! `GET /api/conversation-contexts`

use axum::{Json, extract::State};
use skein_api::ConversationContextList;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::Parameters,
    rest::paging::{Page, Paging},
};

/// The organisation's conversation contexts, oldest first.
#[utoipa::path(
    get,
    path = "/api/conversation-contexts",
    tag = "contexts",
    params(Paging),
    responses((status = 200, description = "A page of conversation contexts", body = ConversationContextList)),
)]
pub(crate) async fn list_conversation_contexts(
    caller: Caller,
    State(context): State<Context>,
    parameters: Parameters<Paging>,
) -> Result<Json<ConversationContextList>, Problem> {
    let page = Page::new(&parameters, &context.settings)?;
    let registry = &context.app.registry;
    let read =
        registry.list_conversation_contexts(&caller.scope, page.after, page.to_read()).await?;
    let (conversation_contexts, next_cursor) = page.cut(read, |context| context.id);
    Ok(Json(ConversationContextList { conversation_contexts, next_cursor }))
}
