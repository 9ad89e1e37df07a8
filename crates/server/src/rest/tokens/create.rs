//! `POST /api/tokens`

use axum::{Json, extract::State, response::IntoResponse};
use http::StatusCode;
use skein_api::{CreateToken, IssuedToken};

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Creating, Parameters, replayed},
};

/// Makes a token. Its secret is shown this once.
#[utoipa::path(
    post,
    path = "/api/tokens",
    tag = "tokens",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to send the request again")),
    request_body = CreateToken,
    responses((status = 201, description = "The token with its secret", body = IssuedToken)),
)]
pub(crate) async fn create_token(
    caller: Caller,
    State(context): State<Context>,
    _: Parameters<()>,
    request: Creating<CreateToken>,
) -> Result<impl IntoResponse, Problem> {
    let (new, key) = (request.body.into(), request.key.as_ref());
    let created = context.app.people.create_token(&caller.scope, new, key).await?;
    let token = IssuedToken::from(created.value);
    Ok((StatusCode::CREATED, replayed(created.replayed), Json(token)))
}
