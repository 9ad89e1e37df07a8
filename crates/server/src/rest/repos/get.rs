//! `GET /api/repos/{id}`

use axum::{Json, extract::State};
use skein_api::Repo;
use skein_core::model::RepoId;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId},
};

/// One repository.
#[utoipa::path(
    get,
    path = "/api/repos/{id}",
    tag = "repositories",
    params(("id" = Uuid, Path, description = "The repository")),
    responses((status = 200, description = "The repository", body = Repo)),
)]
pub(crate) async fn get_repo(
    caller: Caller,
    State(context): State<Context>,
    PathId(repo): PathId<RepoId>,
    _: Parameters<()>,
) -> Result<Json<Repo>, Problem> {
    let repo = context.app.registry.repo(&caller.scope, repo).await?;
    Ok(Json(repo.into()))
}
