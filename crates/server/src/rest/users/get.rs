//! `GET /api/users/{user}`

use axum::{Json, extract::State};
use skein_api::User;
use skein_core::model::UserId;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId},
};

/// One user: oneself, or anyone of the organisation for admins.
#[utoipa::path(
    get,
    path = "/api/users/{user}",
    tag = "administration",
    params(("user" = Uuid, Path, description = "The user")),
    responses((status = 200, description = "The user", body = User)),
)]
pub(crate) async fn get_user(
    caller: Caller,
    State(context): State<Context>,
    PathId(user): PathId<UserId>,
    _: Parameters<()>,
) -> Result<Json<User>, Problem> {
    let user = context.app.people.user(&caller.scope, user).await?;
    Ok(Json(user.into()))
}
