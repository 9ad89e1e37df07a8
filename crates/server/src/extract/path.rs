//! Ids in paths.

use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use skein_core::model::{InvalidId, SessionId, TurnId};

use crate::{
    app::Context,
    error::{Code, Problem},
};

/// The one id of a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathId<T>(pub(crate) T);

/// A turn of a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TurnPath {
    pub(crate) session: SessionId,
    pub(crate) turn: TurnId,
}

/// A question of a session's agent.
#[derive(Debug, Clone)]
pub(crate) struct PermissionPath {
    pub(crate) session: SessionId,
    pub(crate) request_id: String,
}

impl<T: FromStr<Err = InvalidId> + Send> FromRequestParts<Context> for PathId<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, context: &Context) -> Result<Self, Problem> {
        let params = params(parts, context).await?;
        let (name, value) = params.iter().next().unwrap_or_default();
        parse(name, value).map(Self)
    }
}

impl FromRequestParts<Context> for TurnPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, context: &Context) -> Result<Self, Problem> {
        let params = params(parts, context).await?;
        let value = |name| params.iter().find(|(key, _)| *key == name).unwrap_or_default().1;
        Ok(Self { session: parse("id", value("id"))?, turn: parse("turn", value("turn"))? })
    }
}

impl FromRequestParts<Context> for PermissionPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, context: &Context) -> Result<Self, Problem> {
        let params = params(parts, context).await?;
        let value = |name| params.iter().find(|(key, _)| *key == name).unwrap_or_default().1;
        let session = parse("id", value("id"))?;
        Ok(Self { session, request_id: value("requestId").to_owned() })
    }
}

async fn params(parts: &mut Parts, context: &Context) -> Result<RawPathParams, Problem> {
    let params = RawPathParams::from_request_parts(parts, context).await;
    params.map_err(|_| Problem::new(Code::InvalidId, "the path is not valid UTF-8"))
}

fn parse<T: FromStr<Err = InvalidId>>(name: &str, value: &str) -> Result<T, Problem> {
    value
        .parse()
        .map_err(|error: InvalidId| Problem::new(Code::InvalidId, error.to_string()).in_field(name))
}
