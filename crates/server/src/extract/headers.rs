//! The headers that matter beyond a body's type.

use axum::{
    extract::FromRequestParts,
    response::{IntoResponseParts, ResponseParts},
};
use http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts};
use skein_core::model::{Seq, Session, Sha256Hash};

use super::query::position;
use crate::{
    app::Context,
    error::{Code, Problem},
};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The revision that an editor saw: `None` when any will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IfMatch(pub(crate) Option<u64>);

impl FromRequestParts<Context> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Context) -> Result<Self, Problem> {
        Self::parse(&parts.headers)
    }
}

impl IfMatch {
    /// A tag that this server never gave out matches nothing.
    fn parse(headers: &HeaderMap) -> Result<Self, Problem> {
        let mut values = headers.get_all(header::IF_MATCH).iter();
        let value = match (values.next(), values.next()) {
            (None, _) => return Ok(Self(None)),
            (Some(value), None) => value.as_bytes(),
            (Some(_), Some(_)) => b"",
        };
        if value == b"*" {
            return Ok(Self(None));
        }
        let tag = std::str::from_utf8(value).ok().and_then(|text| {
            let digits = text.trim().strip_prefix("\"r")?.strip_suffix('"')?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
        });
        match tag {
            Some(revision) => Ok(Self(Some(revision))),
            None => {
                let detail = "If-Match names no revision of this session; use its ETag";
                Err(Problem::new(Code::PreconditionFailed, detail).in_field("If-Match"))
            }
        }
    }
}

/// The `ETag` of an answer.
#[derive(Debug)]
pub(crate) struct ETag(String);

impl ETag {
    pub(crate) fn of_session(session: &Session) -> Self {
        Self(format!("\"r{}\"", session.revision))
    }

    pub(crate) fn of_content(hash: &Sha256Hash) -> Self {
        Self(format!("\"{hash}\""))
    }

    /// Whether the caller has this content already.
    pub(crate) fn is_known(&self, headers: &HeaderMap) -> bool {
        let known = headers.get_all(header::IF_NONE_MATCH).iter();
        known.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(
            |tag| {
                let tag = tag.trim();
                tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == self.0
            },
        )
    }
}

impl IntoResponseParts for ETag {
    type Error = std::convert::Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Self::Error> {
        if let Ok(value) = HeaderValue::from_str(&self.0) {
            parts.headers_mut().insert(header::ETAG, value);
        }
        Ok(parts)
    }
}

/// Tells a caller that its request was seen before.
pub(crate) fn replayed(replayed: bool) -> Option<[(HeaderName, HeaderValue); 1]> {
    replayed.then(|| [(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"))])
}

/// The caller's key for a request that may be sent twice.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => value.as_bytes(),
        (Some(_), Some(_)) => b"",
    };
    let visible = value.iter().all(u8::is_ascii_graphic) && (1..=255).contains(&value.len());
    let key = std::str::from_utf8(value).ok().filter(|_| visible);
    key.map(Some).ok_or_else(|| {
        let detail = "Idempotency-Key must be 1 to 255 visible ASCII characters, given once";
        Problem::new(Code::InvalidIdempotencyKey, detail).in_field("Idempotency-Key")
    })
}

/// Where a stream is to be taken up: the header beats the parameter.
pub(crate) fn event_position(
    headers: &HeaderMap,
    after: Option<Seq>,
) -> Result<Option<Seq>, Problem> {
    match headers.get(LAST_EVENT_ID) {
        Some(value) => position("Last-Event-ID", value.to_str().unwrap_or("unreadable")).map(Some),
        None => Ok(after),
    }
}

/// Whether the caller asks for a stream instead of one answer.
pub(crate) fn accepts_event_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|range| {
        let media_type = range.split(';').next().unwrap_or_default();
        media_type.trim().eq_ignore_ascii_case("text/event-stream")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name.clone(), HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    #[test]
    fn if_match_takes_one_strong_tag_or_any() {
        let parse = |values: &[&str]| {
            IfMatch::parse(&headers(header::IF_MATCH, values)).map_err(|problem| problem.code)
        };

        assert_eq!(parse(&[]), Ok(IfMatch(None)));
        assert_eq!(parse(&["*"]), Ok(IfMatch(None)));
        assert_eq!(parse(&["\"r12\""]), Ok(IfMatch(Some(12))));
        for bad in
            ["r12", "W/\"r12\"", "\"12\"", "\"r\"", "\"r-1\"", "\"r+1\"", "\"r1\",\"r2\"", ""]
        {
            assert_eq!(parse(&[bad]), Err(Code::PreconditionFailed), "{bad}");
        }
        assert_eq!(parse(&["\"r1\"", "\"r1\""]), Err(Code::PreconditionFailed));
    }

    #[test]
    fn idempotency_keys_are_1_to_255_visible_characters() {
        let long = "k".repeat(255);
        for good in ["a", "~!", long.as_str()] {
            let headers = headers(IDEMPOTENCY_KEY, &[good]);
            assert_eq!(idempotency_key(&headers).unwrap(), Some(good));
        }
        let longer = "k".repeat(256);
        for bad in ["", "a b", "é", longer.as_str()] {
            let headers = headers(IDEMPOTENCY_KEY, &[bad]);
            let refused = idempotency_key(&headers).unwrap_err();
            assert_eq!(refused.code, Code::InvalidIdempotencyKey, "{bad}");
        }
        assert_eq!(idempotency_key(&HeaderMap::new()).unwrap(), None);
        assert!(idempotency_key(&headers(IDEMPOTENCY_KEY, &["a", "b"])).is_err());
    }

    #[test]
    fn the_last_event_id_beats_the_parameter() {
        let from = |value| event_position(&headers(LAST_EVENT_ID, &[value]), Some(3));

        assert_eq!(from("17").unwrap(), Some(17));
        assert_eq!(event_position(&HeaderMap::new(), Some(3)).unwrap(), Some(3));
        for bad in ["-1", "x", "", "é", "18446744073709551615"] {
            assert_eq!(from(bad).unwrap_err().code, Code::InvalidCursor, "{bad}");
        }
    }

    #[test]
    fn a_stream_is_asked_for_by_its_media_type() {
        let accepts = |value| accepts_event_stream(&headers(header::ACCEPT, &[value]));

        assert!(accepts("text/event-stream"));
        assert!(accepts("application/json, Text/Event-Stream;q=0.9"));
        assert!(!accepts("*/*"));
        assert!(!accepts("text/event-streams"));
    }

    #[test]
    fn content_that_is_known_is_recognised() {
        let tag = ETag("\"abc\"".to_owned());
        for known in ["\"abc\"", "W/\"abc\"", "\"x\", \"abc\"", "*"] {
            assert!(tag.is_known(&headers(header::IF_NONE_MATCH, &[known])), "{known}");
        }
        assert!(!tag.is_known(&headers(header::IF_NONE_MATCH, &["\"ab\""])));
        assert!(!tag.is_known(&HeaderMap::new()));
    }
}
