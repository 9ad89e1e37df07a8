//! `GET /api/users/{user}/sessions`

use axum::{Json, extract::State};
use skein_api::SessionList;
use skein_core::model::UserId;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId},
    rest::sessions::filters::{Filters, ListRequest},
};

/// Sessions that a user owns or took part in, as far as the caller may read them; newest first.
#[utoipa::path(
    get,
    path = "/api/users/{user}/sessions",
    tag = "sessions",
    params(("user" = Uuid, Path, description = "The user"), Filters),
    responses((status = 200, description = "A page of sessions", body = SessionList)),
)]
pub(crate) async fn list_user_sessions(
    caller: Caller,
    State(context): State<Context>,
    PathId(user): PathId<UserId>,
    parameters: Parameters<Filters>,
) -> Result<Json<SessionList>, Problem> {
    let request = ListRequest::new(&parameters, &context.settings)?;
    let sessions = &context.app.sessions;
    let page = match &request.list {
        Some(list) => Some(sessions.list_of_user(&caller.scope, user, list.clone()).await?),
        None => None,
    };
    Ok(Json(request.answer(page)))
}
