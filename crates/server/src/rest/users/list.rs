//! `GET /api/users`

use axum::{Json, extract::State};
use skein_api::UserList;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::Parameters,
    rest::paging::{Page, Paging},
};

/// The users of the caller's organisation, oldest first. For admins.
#[utoipa::path(
    get,
    path = "/api/users",
    tag = "administration",
    params(Paging),
    responses((status = 200, description = "A page of users", body = UserList)),
)]
pub(crate) async fn list_users(
    caller: Caller,
    State(context): State<Context>,
    parameters: Parameters<Paging>,
) -> Result<Json<UserList>, Problem> {
    let page = Page::new(&parameters, &context.settings)?;
    let people = &context.app.people;
    let users = people.list_users(&caller.scope, page.after, page.to_read()).await?;
    let (users, next_cursor) = page.cut(users, |user| user.id);
    Ok(Json(UserList { users, next_cursor }))
}
