//! `PATCH /api/users/{user}`

use axum::{Json, extract::State};
use skein_api::{EditUser, User};
use skein_core::model::UserId;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId, Strict},
};

/// Changes a user's role (owners only), or puts them out of use.
#[utoipa::path(
    patch,
    path = "/api/users/{user}",
    tag = "administration",
    params(("user" = Uuid, Path, description = "The user; not the caller")),
    request_body = EditUser,
    responses((status = 200, description = "The user as they are now", body = User)),
)]
pub(crate) async fn edit_user(
    caller: Caller,
    State(context): State<Context>,
    PathId(user): PathId<UserId>,
    _: Parameters<()>,
    Strict(edit): Strict<EditUser>,
) -> Result<Json<User>, Problem> {
    let edited = context.app.people.edit_user(&caller.scope, user, edit.into()).await?;
    Ok(Json(edited.into()))
}
