//! `GET /api/tokens`

use axum::{Json, extract::State};
use skein_api::{Token, TokenList};

use crate::{app::Context, auth::Caller, error::Problem, extract::Parameters};

/// The caller's tokens, or everyone's for admins; newest first, without secrets.
#[utoipa::path(
    get,
    path = "/api/tokens",
    tag = "tokens",
    responses((status = 200, description = "The tokens", body = TokenList)),
)]
pub(crate) async fn list_tokens(
    caller: Caller,
    State(context): State<Context>,
    _: Parameters<()>,
) -> Result<Json<TokenList>, Problem> {
    let tokens = context.app.people.list_tokens(&caller.scope).await?;
    Ok(Json(TokenList { tokens: tokens.into_iter().map(Token::from).collect() }))
}
