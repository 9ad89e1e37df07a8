//! `POST /api/repos/{id}/index`

use axum::{Json, extract::State, response::IntoResponse};
use http::StatusCode;
use skein_api::{Index, IndexRepo};
use skein_core::model::RepoId;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId, Strict},
};

/// Brings the repository's index up to date, in the background. A run that goes on is joined. For admins.
#[utoipa::path(
    post,
    path = "/api/repos/{id}/index",
    tag = "repositories",
    params(("id" = Uuid, Path, description = "The repository")),
    request_body = Option<IndexRepo>,
    responses((status = 202, description = "Where the index stands", body = Index)),
)]
pub(crate) async fn index_repo(
    caller: Caller,
    State(context): State<Context>,
    PathId(repo): PathId<RepoId>,
    _: Parameters<()>,
    Strict(request): Strict<IndexRepo>,
) -> Result<impl IntoResponse, Problem> {
    let index = context.app.indexing.start(&caller.scope, repo, request.commit).await?;
    Ok((StatusCode::ACCEPTED, Json(Index::from(index))))
}
