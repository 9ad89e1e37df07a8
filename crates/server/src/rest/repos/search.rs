//! `GET /api/repos/{id}/search`

use axum::{Json, extract::State};
use skein_api::{SearchResult, SearchResults};
use skein_core::{indexing::Search, model::RepoId};

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Known, Parameters, PathId, invalid},
};

/// Passages, unless the caller says how many.
const LIMIT: u32 = 8;
const MAX_LIMIT: u32 = 100;

pub(crate) struct Asked;

impl Known for Asked {
    const NAMES: &'static [&'static str] = &["q", "limit", "path", "language"];
}

/// Passages of the repository, the best first. The text has no syntax: it is taken as it is.
#[utoipa::path(
    get,
    path = "/api/repos/{id}/search",
    tag = "repositories",
    params(
        ("id" = Uuid, Path, description = "The repository"),
        ("q" = String, Query, description = "What is looked for", min_length = 1),
        ("limit" = Option<u32>, Query, description = "At most so many", minimum = 1, maximum = 100),
        ("path" = Option<String>, Query, description = "Only below this path, or matching this pattern"),
        ("language" = Option<String>, Query, description = "Only of this language"),
    ),
    responses((status = 200, description = "What was found", body = SearchResults)),
)]
pub(crate) async fn search_repo(
    caller: Caller,
    State(context): State<Context>,
    PathId(repo): PathId<RepoId>,
    parameters: Parameters<Asked>,
) -> Result<Json<SearchResults>, Problem> {
    let text = parameters.text("q").filter(|text| !text.trim().is_empty());
    let Some(text) = text else { return Err(invalid("q", "say what to look for")) };
    let search = Search {
        text: text.to_owned(),
        paths: parameters.text("path").map(str::to_owned).into_iter().collect(),
        language: parameters.text("language").map(str::to_owned),
        limit: parameters.number("limit", 1..=MAX_LIMIT)?.unwrap_or(LIMIT),
    };
    let found = context.app.indexing.search(&caller.scope, repo, search).await?;
    Ok(Json(SearchResults { results: found.into_iter().map(SearchResult::from).collect() }))
}
