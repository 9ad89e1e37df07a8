//! `GET /metrics`

use axum::extract::State;
use http::{HeaderName, header};
use skein_core::policy::access;

use crate::{app::Context, auth::Caller, error::Problem, extract::Parameters, metrics as counted};

/// Counters of the whole server in the format of Prometheus. For admins.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operations",
    responses((status = 200, description = "The counters", body = String, content_type = "text/plain; version=0.0.4")),
)]
pub(crate) async fn metrics(
    caller: Caller,
    State(context): State<Context>,
    _: Parameters<()>,
) -> Result<([(HeaderName, &'static str); 1], String), Problem> {
    access::check_administer(&caller.scope, "reading the metrics")?;
    let text = counted::render(&context);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text))
}
