//! JSON bodies: bounded before they are buffered, and strict about what they say.

use std::time::Duration;

use axum::{
    body::Body,
    extract::{FromRequest, Request},
};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Uri, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use skein_api::{
    AddDocument, AnswerPermission, CancelTurn, ChangeAgentContext, ChangeConversationContext,
    CompleteSession, CreateAgentContext, CreateConversationContext, CreateOrg, CreateRepo,
    CreateSession, CreateToken, CreateUser, EditSession, EditUser, Execute, INVALID_ID, IndexRepo,
    Members, Prompt, Rerun, ResumeSession, SuspendSession,
};
use skein_core::{model::Sha256Hash, platform::IdempotencyKey};
use tokio::time::timeout;

use super::headers::idempotency_key;
use crate::{
    app::Context,
    error::{Code, Problem},
};

/// What is read and thrown away of a body that is too large, so that a caller who is still sending sees the refusal.
const MAX_DISCARDED_BYTES: usize = 64 * 1024 * 1024;
const MAX_DISCARD: Duration = Duration::from_secs(5);

/// What may stand in a body.
pub(crate) trait JsonRequest: DeserializeOwned {
    /// No body means the same as `{}`.
    const MAY_BE_EMPTY: bool = false;
}

impl JsonRequest for CreateSession {}
impl JsonRequest for AddDocument {}
impl JsonRequest for AnswerPermission {}
impl JsonRequest for IndexRepo {
    const MAY_BE_EMPTY: bool = true;
}
impl JsonRequest for EditSession {}
impl JsonRequest for Prompt {}
impl JsonRequest for Execute {}
impl JsonRequest for CreateToken {}
impl JsonRequest for CreateOrg {}
impl JsonRequest for CreateUser {}
impl JsonRequest for EditUser {}
impl JsonRequest for CreateRepo {}
impl JsonRequest for CreateAgentContext {}
impl JsonRequest for ChangeAgentContext {}
impl JsonRequest for CreateConversationContext {}
impl JsonRequest for ChangeConversationContext {}
impl JsonRequest for CompleteSession {
    const MAY_BE_EMPTY: bool = true;
}
impl JsonRequest for SuspendSession {
    const MAY_BE_EMPTY: bool = true;
}
impl JsonRequest for ResumeSession {
    const MAY_BE_EMPTY: bool = true;
}
impl JsonRequest for CancelTurn {
    const MAY_BE_EMPTY: bool = true;
}
impl JsonRequest for Rerun {
    const MAY_BE_EMPTY: bool = true;
}

/// A checked body.
#[derive(Debug)]
pub(crate) struct Strict<T>(pub(crate) T);

/// A checked body of a request that creates something, with the key under which it may be sent again.
#[derive(Debug)]
pub(crate) struct Creating<T> {
    pub(crate) body: T,
    pub(crate) key: Option<IdempotencyKey>,
}

impl<T: JsonRequest> FromRequest<Context> for Strict<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, context: &Context) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let bytes = read(&parts.headers, body, context).await?;
        parse::<T>(&parts.headers, &bytes).map(Self)
    }
}

impl<T: JsonRequest> FromRequest<Context> for Creating<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, context: &Context) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let key = idempotency_key(&parts.headers)?.map(str::to_owned);
        let bytes = read(&parts.headers, body, context).await?;
        let value = parse::<T>(&parts.headers, &bytes)?;
        let key = key.map(|key| IdempotencyKey {
            key,
            fingerprint: fingerprint(&parts.method, &parts.uri, &bytes),
        });
        Ok(Self { body: value, key })
    }
}

/// Tells one request from another under the same key.
fn fingerprint(method: &Method, uri: &Uri, body: &[u8]) -> Sha256Hash {
    let parts = [method.as_str().as_bytes(), b"\0", uri.path().as_bytes(), b"\0", body];
    Sha256Hash::of_parts(parts)
}

async fn read(headers: &HeaderMap, body: Body, context: &Context) -> Result<Bytes, Problem> {
    let limit = context.settings.body_bytes;
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if declared.and_then(|text| text.parse().ok()).is_some_and(|size: usize| size > limit) {
        if !headers.contains_key(header::EXPECT) {
            discard(body).await;
        }
        return Err(too_large(limit));
    }
    match timeout(context.settings.body_timeout, collect(body, limit)).await {
        Ok(read) => read,
        Err(_) => Err(Problem::new(Code::InvalidRequest, "the body did not arrive in time")),
    }
}

/// Most bodies come in one piece, which is then not copied.
async fn collect(mut body: Body, limit: usize) -> Result<Bytes, Problem> {
    let cut = |_| Problem::new(Code::InvalidRequest, "the body ended early");
    let mut first = Bytes::new();
    let mut gathered = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(cut)?.into_data() else { continue };
        if first.len() + gathered.len() + data.len() > limit {
            drop((first, gathered));
            discard(body).await;
            return Err(too_large(limit));
        }
        if first.is_empty() && gathered.is_empty() {
            first = data;
            continue;
        }
        if gathered.is_empty() {
            gathered.extend_from_slice(&std::mem::take(&mut first));
        }
        gathered.extend_from_slice(&data);
    }
    Ok(if gathered.is_empty() { first } else { gathered.freeze() })
}

async fn discard(mut body: Body) {
    let discarding = async {
        let mut discarded = 0;
        while let Some(Ok(frame)) = body.frame().await {
            discarded += frame.data_ref().map_or(0, Bytes::len);
            if discarded > MAX_DISCARDED_BYTES {
                break;
            }
        }
    };
    if timeout(MAX_DISCARD, discarding).await.is_err() {
        tracing::debug!("a body that is too large is still being sent");
    }
}

fn too_large(limit: usize) -> Problem {
    let detail = format!("a request body may have {limit} bytes");
    Problem::new(Code::PayloadTooLarge, detail).at_limit(limit as u64)
}

fn parse<T: JsonRequest>(headers: &HeaderMap, body: &[u8]) -> Result<T, Problem> {
    if body.is_empty() && T::MAY_BE_EMPTY {
        return from_json("{}");
    }
    if !is_json(headers) {
        let detail = "send JSON with the header `Content-Type: application/json`";
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    let text = std::str::from_utf8(body)
        .map_err(|_| Problem::new(Code::InvalidJson, "the body is not valid UTF-8"))?;
    from_json(text)
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let mut parts = value.unwrap_or_default().split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    is_json
        && parts.filter_map(|parameter| parameter.split_once('=')).all(|(name, value)| {
            !name.trim().eq_ignore_ascii_case("charset")
                || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        })
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let Members(value) = serde_path_to_error::deserialize(&mut deserializer).map_err(refusal)?;
    deserializer.end().map_err(|error| Problem::new(Code::InvalidJson, error.to_string()))?;
    Ok(value)
}

/// Which refusal a deserializer's error is. The beginnings of serde's own messages tell them apart.
fn refusal(error: serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let path = error.path().to_string();
    let error = error.into_inner();
    let detail: String = error.to_string().chars().take(512).collect();
    if !error.is_data() || detail.starts_with("duplicate field") {
        return Problem::new(Code::InvalidJson, detail);
    }
    let named = detail.split('`').nth(1).map(str::to_owned);
    let (code, field) = if detail.starts_with("unknown field") {
        (Code::UnknownField, named.map(|name| join(&path, &name)))
    } else if detail.starts_with("missing field") {
        (Code::InvalidRequest, named.map(|name| join(&path, &name)))
    } else if detail.starts_with(INVALID_ID) {
        (Code::InvalidId, Some(path))
    } else {
        (Code::InvalidRequest, Some(path))
    };
    let problem = Problem::new(code, detail);
    match field.filter(|field| field != ".") {
        Some(field) => problem.in_field(field),
        None => problem,
    }
}

/// The path of a member; serde may have counted the member in already.
fn join(path: &str, name: &str) -> String {
    if path == "." || path == name {
        name.to_owned()
    } else if path.ends_with(&format!(".{name}")) {
        path.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
