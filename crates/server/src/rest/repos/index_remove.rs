//! `DELETE /api/repos/{id}/index`

use axum::extract::State;
use http::StatusCode;
use skein_core::model::RepoId;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId},
};

/// Forgets what the index holds of the repository. For admins.
#[utoipa::path(
    delete,
    path = "/api/repos/{id}/index",
    tag = "repositories",
    params(("id" = Uuid, Path, description = "The repository")),
    responses((status = 204, description = "Nothing is left of it")),
)]
pub(crate) async fn remove_index(
    caller: Caller,
    State(context): State<Context>,
    PathId(repo): PathId<RepoId>,
    _: Parameters<()>,
) -> Result<StatusCode, Problem> {
    context.app.indexing.remove(&caller.scope, repo).await?;
    Ok(StatusCode::NO_CONTENT)
}
