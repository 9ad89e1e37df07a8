//! `POST /api/repos`

use axum::{Json, extract::State, response::IntoResponse};
use http::{StatusCode, header};
use skein_api::{CreateRepo, Repo};

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Creating, Parameters, replayed},
};

/// Registers a Git work tree under the workspace root. For admins.
#[utoipa::path(
    post,
    path = "/api/repos",
    tag = "repositories",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to send the request again")),
    request_body = CreateRepo,
    responses((status = 201, description = "The new repository", body = Repo)),
)]
pub(crate) async fn create_repo(
    caller: Caller,
    State(context): State<Context>,
    _: Parameters<()>,
    request: Creating<CreateRepo>,
) -> Result<impl IntoResponse, Problem> {
    let (CreateRepo { name, path }, key) = (request.body, request.key.as_ref());
    let created = context.app.registry.create_repo(&caller.scope, (name, path), key).await?;
    let location = format!("/api/repos/{}", created.value.id);
    Ok((
        StatusCode::CREATED,
        replayed(created.replayed),
        [(header::LOCATION, location)],
        Json(Repo::from(created.value)),
    ))
}
