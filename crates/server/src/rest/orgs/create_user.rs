//! `POST /api/orgs/{org}/users`

use axum::{Json, extract::State, response::IntoResponse};
use http::{StatusCode, header};
use skein_api::{CreateUser, CreatedUser};
use skein_core::model::OrgId;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Creating, Parameters, PathId, replayed},
};

/// Adds a user with a token of their own, whose secret is shown this once.
#[utoipa::path(
    post,
    path = "/api/orgs/{org}/users",
    tag = "administration",
    params(
        ("org" = Uuid, Path, description = "The caller's own organisation; any for the owner of this server"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to send the request again"),
    ),
    request_body = CreateUser,
    responses((status = 201, description = "The new user with their token", body = CreatedUser)),
)]
pub(crate) async fn create_user(
    caller: Caller,
    State(context): State<Context>,
    PathId(org): PathId<OrgId>,
    _: Parameters<()>,
    request: Creating<CreateUser>,
) -> Result<impl IntoResponse, Problem> {
    let (new, key) = (request.body.into(), request.key.as_ref());
    let created = context.app.people.create_user(&caller.scope, org, new, key).await?;
    let user = CreatedUser::from(created.value);
    let location = format!("/api/users/{}", user.id);
    Ok((
        StatusCode::CREATED,
        replayed(created.replayed),
        [(header::LOCATION, location)],
        Json(user),
    ))
}
