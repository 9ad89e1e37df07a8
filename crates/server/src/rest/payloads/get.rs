//! `GET /api/payloads/{id}`

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use futures::TryStreamExt;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use skein_core::model::PayloadId;
use tracing::error;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{ETag, Parameters, PathId},
};

/// The exact bytes that were stored, for whoever may read a session that holds them.
#[utoipa::path(
    get,
    path = "/api/payloads/{id}",
    tag = "payloads",
    params(
        ("id" = Uuid, Path, description = "The payload"),
        ("If-None-Match" = Option<String>, Header, description = "The ETag of what the caller has"),
    ),
    responses(
        (status = 200, description = "The bytes; the ETag is their SHA-256", body = String, content_type = "text/plain; charset=utf-8"),
        (status = 304, description = "The caller has them already"),
    ),
)]
pub(crate) async fn get_payload(
    caller: Caller,
    State(context): State<Context>,
    PathId(payload): PathId<PayloadId>,
    _: Parameters<()>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let stored = context.app.history.payload(&caller.scope, payload).await?;
    let meta = stored.meta();
    let etag = ETag::of_content(&meta.sha256);
    // A payload never changes, but who may read it does: ask again before using a copy.
    let cache = (header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if etag.is_known(&headers) {
        return Ok((StatusCode::NOT_MODIFIED, [cache], etag, ()).into_response());
    }
    let media_type = HeaderValue::from_str(&meta.media_type)
        .unwrap_or(HeaderValue::from_static("application/octet-stream"));
    // Whatever it holds, a browser must not run it.
    let policy = HeaderValue::from_static("default-src 'none'; sandbox");
    let length = (header::CONTENT_LENGTH, HeaderValue::from(meta.size_bytes));
    let headers = [
        cache,
        length,
        (header::CONTENT_TYPE, media_type),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    let body = match stored.is_one_piece() {
        true => Body::from(stored.body().await?),
        // What does not match its SHA-256 ends before its length.
        false => Body::from_stream(stored.pieces().inspect_err(move |error| {
            error!(%error, payload.id = %payload, "a payload was cut off");
        })),
    };
    Ok((headers, etag, body).into_response())
}
