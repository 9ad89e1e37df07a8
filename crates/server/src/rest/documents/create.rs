//! `POST /api/sessions/{id}/documents`

use axum::{Json, extract::State, response::IntoResponse};
use http::StatusCode;
use skein_api::{AddDocument, Document};
use skein_core::model::SessionId;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Creating, Parameters, PathId, replayed},
};

/// Adds a text to the session: its turns, and those of its forks, find it from now on.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/documents",
    tag = "sessions",
    params(
        ("id" = Uuid, Path, description = "The session"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to send the request again"),
    ),
    request_body = AddDocument,
    responses((status = 201, description = "The document", body = Document)),
)]
pub(crate) async fn add_document(
    caller: Caller,
    State(context): State<Context>,
    PathId(session): PathId<SessionId>,
    _: Parameters<()>,
    request: Creating<AddDocument>,
) -> Result<impl IntoResponse, Problem> {
    let (new, key) = (request.body.into(), request.key.as_ref());
    let added = context.app.indexing.add_document(&caller.scope, session, new, key).await?;
    let (document, chunks) = added.value;
    let body = Json(Document::new(document, Some(chunks)));
    Ok((StatusCode::CREATED, replayed(added.replayed), body))
}
