//! `DELETE /api/tokens/{id}`

use axum::extract::State;
use http::StatusCode;
use skein_core::model::TokenId;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId},
};

/// Ends a token at once, and its streams within seconds.
#[utoipa::path(
    delete,
    path = "/api/tokens/{id}",
    tag = "tokens",
    params(("id" = Uuid, Path, description = "The token")),
    responses((status = 204, description = "The token opens nothing any more")),
)]
pub(crate) async fn revoke_token(
    caller: Caller,
    State(context): State<Context>,
    PathId(token): PathId<TokenId>,
    _: Parameters<()>,
) -> Result<StatusCode, Problem> {
    context.app.people.revoke_token(&caller.scope, token).await?;
    Ok(StatusCode::NO_CONTENT)
}
