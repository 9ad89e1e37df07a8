//! `POST /api/orgs`

use axum::{Json, extract::State, response::IntoResponse};
use http::StatusCode;
use skein_api::{CreateOrg, Org};

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Creating, Parameters, replayed},
};

/// Makes an organisation. Only the owner of this server may.
#[utoipa::path(
    post,
    path = "/api/orgs",
    tag = "administration",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to send the request again")),
    request_body = CreateOrg,
    responses((status = 201, description = "The new organisation", body = Org)),
)]
pub(crate) async fn create_org(
    caller: Caller,
    State(context): State<Context>,
    _: Parameters<()>,
    request: Creating<CreateOrg>,
) -> Result<impl IntoResponse, Problem> {
    let (name, key) = (request.body.name, request.key.as_ref());
    let created = context.app.people.create_org(&caller.scope, name, key).await?;
    Ok((StatusCode::CREATED, replayed(created.replayed), Json(Org::from(created.value))))
}
