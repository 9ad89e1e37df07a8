//! `GET /api/sessions/{id}/documents`

use axum::{Json, extract::State};
use skein_api::DocumentList;
use skein_core::model::SessionId;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId},
    rest::paging::{Page, Paging},
};

/// The texts that the session's turns can find, oldest first.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/documents",
    tag = "sessions",
    params(("id" = Uuid, Path, description = "The session"), Paging),
    responses((status = 200, description = "A page of documents", body = DocumentList)),
)]
pub(crate) async fn list_documents(
    caller: Caller,
    State(context): State<Context>,
    PathId(session): PathId<SessionId>,
    parameters: Parameters<Paging>,
) -> Result<Json<DocumentList>, Problem> {
    let page = Page::new(&parameters, &context.settings)?;
    let indexing = &context.app.indexing;
    let found = indexing.list_documents(&caller.scope, session, page.after, page.to_read()).await?;
    let (documents, next_cursor) = page.cut(found, |document| document.id);
    Ok(Json(DocumentList { documents, next_cursor }))
}
