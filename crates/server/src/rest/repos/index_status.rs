//! `GET /api/repos/{id}/index`

use axum::{Json, extract::State};
use skein_api::Index;
use skein_core::model::RepoId;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId},
};

/// Where the repository's index stands.
#[utoipa::path(
    get,
    path = "/api/repos/{id}/index",
    tag = "repositories",
    params(("id" = Uuid, Path, description = "The repository")),
    responses((status = 200, description = "Where it stands", body = Index)),
)]
pub(crate) async fn index_status(
    caller: Caller,
    State(context): State<Context>,
    PathId(repo): PathId<RepoId>,
    _: Parameters<()>,
) -> Result<Json<Index>, Problem> {
    Ok(Json(context.app.indexing.status(&caller.scope, repo).await?.into()))
}
