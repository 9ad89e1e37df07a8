//! `GET /metrics`

use axum::extract::State;
use http::{HeaderName, header};

use crate::{app::Context, auth::Caller, error::Problem, extract::Parameters, metrics as counted};

/// Counters in the format of Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operations",
    responses((status = 200, description = "The counters", body = String, content_type = "text/plain; version=0.0.4")),
)]
pub(crate) async fn metrics(
    _: Caller,
    State(context): State<Context>,
    _: Parameters<()>,
) -> Result<([(HeaderName, &'static str); 1], String), Problem> {
    let text = counted::render(&context);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text))
}
