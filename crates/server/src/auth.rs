//! Who is calling: the bearer token of a request.

use std::ops::Deref;

use axum::extract::FromRequestParts;
use http::{HeaderMap, header, request::Parts};
use skein_core::people;

use crate::{
    app::{Context, Shared},
    error::{Code, Problem},
};

/// A caller who has shown a valid token. Named first in a handler, so that nobody else learns anything.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) people::Caller);

impl Deref for Caller {
    type Target = people::Caller;

    fn deref(&self) -> &people::Caller {
        &self.0
    }
}

impl FromRequestParts<Context> for Caller {
    type Rejection = Problem;

    /// Whom [`crate::admission`] has let in.
    async fn from_request_parts(parts: &mut Parts, _: &Context) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| {
            let hint = match bearer(&parts.headers) {
                Some(_) => "the token is unknown, expired or revoked",
                None => "send the header `Authorization: Bearer <token>`",
            };
            Problem::new(Code::Unauthenticated, hint)
        })
    }
}

/// Whoever the request's token belongs to; `None` without a token that opens anything.
pub(crate) async fn identify(
    context: &Shared,
    headers: &HeaderMap,
) -> Result<Option<people::Caller>, Problem> {
    match bearer(headers) {
        Some(secret) => Ok(context.app.people.authenticate(secret).await?),
        None => Ok(None),
    }
}

/// The one bearer token of a request; the scheme is case-insensitive.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_scheme_is_case_insensitive_and_there_is_exactly_one_token() {
        let headers = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, HeaderValue::from_static(value));
            }
            headers
        };

        for good in ["Bearer skein_1", "bearer skein_1", "BEARER  skein_1 "] {
            assert_eq!(bearer(&headers(&[good])), Some("skein_1"), "{good}");
        }
        for bad in ["", "Bearer", "Bearer ", "Basic skein_1", "skein_1", "Bearerskein_1"] {
            assert_eq!(bearer(&headers(&[bad])), None, "{bad}");
        }
        assert_eq!(bearer(&headers(&["Bearer a", "Bearer b"])), None);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
