//! `GET /api/repos`

use axum::{Json, extract::State};
use skein_api::RepoList;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::Parameters,
    rest::paging::{Page, Paging},
};

/// The organisation's repositories, oldest first.
#[utoipa::path(
    get,
    path = "/api/repos",
    tag = "repositories",
    params(Paging),
    responses((status = 200, description = "A page of repositories", body = RepoList)),
)]
pub(crate) async fn list_repos(
    caller: Caller,
    State(context): State<Context>,
    parameters: Parameters<Paging>,
) -> Result<Json<RepoList>, Problem> {
    let page = Page::new(&parameters, &context.settings)?;
    let registry = &context.app.registry;
    let repos = registry.list_repos(&caller.scope, page.after, page.to_read()).await?;
    let (repos, next_cursor) = page.cut(repos, |repo| repo.id);
    Ok(Json(RepoList { repos, next_cursor }))
}
