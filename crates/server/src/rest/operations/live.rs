//! `GET /livez`

use axum::Json;
use skein_api::Health;

/// The process need not be restarted.
#[utoipa::path(
    get,
    path = "/livez",
    tag = "operations",
    responses((status = 200, description = "It lives", body = Health)),
)]
pub(crate) async fn livez() -> Json<Health> {
    Json(Health { status: "ok" })
}
