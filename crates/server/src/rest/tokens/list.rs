//! `GET /api/tokens`

use axum::{Json, extract::State};
use skein_api::TokenList;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::Parameters,
    rest::paging::{Page, Paging},
};

/// The caller's tokens, or everyone's for admins; newest first, without secrets.
#[utoipa::path(
    get,
    path = "/api/tokens",
    tag = "tokens",
    params(Paging),
    responses((status = 200, description = "A page of tokens", body = TokenList)),
)]
pub(crate) async fn list_tokens(
    caller: Caller,
    State(context): State<Context>,
    parameters: Parameters<Paging>,
) -> Result<Json<TokenList>, Problem> {
    let page = Page::new(&parameters, &context.settings)?;
    let people = &context.app.people;
    let tokens = people.list_tokens(&caller.scope, page.after, page.to_read()).await?;
    let (tokens, next_cursor) = page.cut(tokens, |token| token.id);
    Ok(Json(TokenList { tokens, next_cursor }))
}
