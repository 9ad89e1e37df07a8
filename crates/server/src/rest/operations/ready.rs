//! `GET /readyz`

use axum::{Json, extract::State};
use skein_api::Health;
use skein_core::{Error, model::SystemScope};

use crate::{
    app::Context,
    error::{Code, Problem},
};

/// The server takes work: it has recovered, does not drain, and its store can write.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operations",
    responses(
        (status = 200, description = "It takes work", body = Health),
        (status = 507, description = "The disk is full", body = skein_api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn readyz(State(context): State<Context>) -> Result<Json<Health>, Problem> {
    if !context.app.lifecycle.is_ready() {
        return Err(Problem::new(Code::Draining, "the server is starting or shutting down"));
    }
    let scope = SystemScope::for_purpose("readiness");
    context.app.platform.store.check(scope).await.map_err(Error::from)?;
    Ok(Json(Health { status: "ready" }))
}
