//! An HTTP reply that is not an answer.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::{
    Response, StatusCode,
    header::{DATE, HeaderMap, HeaderName, RETRY_AFTER},
};
use tokio::time::{Instant, timeout_at};

use super::wire::{ErrorObject, tells_lost_chain};

/// As much of an error's body as is kept.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// As much of an error's text as is shown.
const MAX_MESSAGE_CHARS: usize = 1000;

/// Longer pauses are left to the person who asked.
const MAX_WAIT: Duration = Duration::from_secs(30);

const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// A refusal with its body.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
    retry_after: Option<Duration>,
    error: Option<ErrorObject>,
}

impl Refusal {
    pub(super) async fn read(mut response: Response, limit: Duration) -> Self {
        let status = response.status();
        let retry_after = retry_after(response.headers());
        let until = Instant::now() + limit;
        let mut body = BytesMut::new();
        // What comes of it in time is enough: the status is the answer.
        while let Ok(Ok(Some(chunk))) = timeout_at(until, response.chunk()).await {
            let room = MAX_BODY_BYTES - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == MAX_BODY_BYTES {
                break;
            }
        }
        let body = body.freeze();
        let error = ErrorObject::read(&body);
        Self { status, body, retry_after, error }
    }

    /// Whether the response that the call goes on from cannot be gone on from, and nothing ran.
    pub(super) fn is_lost_chain(&self) -> bool {
        matches!(self.status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND)
            && match &self.error {
                Some(error @ ErrorObject { message, code })
                    if message.is_some() || code.is_some() =>
                {
                    error.is_lost_chain()
                }
                _ => tells_lost_chain(&String::from_utf8_lossy(&self.body)),
            }
    }

    /// For a raw response that the next call's stream is added to: readers of events pass over it.
    pub(super) fn as_event_stream(&self) -> Bytes {
        let mut stream = BytesMut::from(format!(": {}\n", self.status).as_bytes());
        stream.extend_from_slice(&self.body);
        stream.extend_from_slice(b"\n\n");
        stream.freeze()
    }

    /// How long to wait before the call may be made again, if it may: the reply proves that nothing ran.
    pub(super) fn pause(&self, calls: u32) -> Option<Duration> {
        let code = self.error.as_ref().and_then(|error| error.code.as_deref());
        match (self.status, self.retry_after) {
            // Waiting does not fill an account.
            _ if code == Some("insufficient_quota") => None,
            (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, Some(wait)) => {
                (wait <= MAX_WAIT).then_some(wait)
            }
            (StatusCode::TOO_MANY_REQUESTS, None) => Some(backoff(calls)),
            _ => None,
        }
    }

    /// For people.
    pub(super) fn message(&self) -> String {
        let text = match &self.error {
            Some(ErrorObject { message: Some(message), code: Some(code) }) => {
                format!("{message} ({code})")
            }
            Some(ErrorObject { message: Some(message), .. }) => message.clone(),
            _ => String::from_utf8_lossy(&self.body).trim().to_owned(),
        };
        let mut message = format!("the provider answered {}", self.status.as_u16());
        if !text.is_empty() {
            message.push_str(": ");
            message.extend(text.chars().take(MAX_MESSAGE_CHARS));
        }
        if let Some(wait) = self.retry_after {
            message.push_str(&format!(" (try again in {} s)", wait.as_secs()));
        }
        message
    }
}

/// A pause that doubles with every call that was made.
pub(super) fn backoff(calls: u32) -> Duration {
    FIRST_PAUSE * 2_u32.saturating_pow(calls.saturating_sub(1).min(4))
}

/// `Retry-After` as a duration. A date counts from the reply's own, so that no clock of ours is needed.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let value = text(RETRY_AFTER)?;
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    let now = httpdate::parse_http_date(text(DATE)?).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn refusal(status: u16, body: &'static str) -> Refusal {
        Refusal {
            status: StatusCode::from_u16(status).unwrap(),
            body: Bytes::from_static(body.as_bytes()),
            retry_after: None,
            error: ErrorObject::read(body.as_bytes()),
        }
    }

    #[test]
    fn a_lost_chain_is_told_by_code_or_in_words() {
        let lost = [
            (400, r#"{"error":{"code":"previous_response_not_found","message":"x"}}"#),
            (404, r#"{"error":{"message":"Previous response with id 'resp_1' not found."}}"#),
            (400, r#"{"error":"previous_response_id resp_1 was not found"}"#),
            (400, "previous_response_not_found"),
            (400, r#"{"error":{"message":"No tool output found for function call call_1."}}"#),
        ];
        let kept = [
            (500, r#"{"error":{"code":"previous_response_not_found"}}"#),
            (400, r#"{"error":{"message":"previous_response_id is not supported"}}"#),
            (404, r#"{"error":{"message":"model not found"}}"#),
            (404, "not found"),
        ];

        for (status, body) in lost {
            assert!(refusal(status, body).is_lost_chain(), "{status} {body}");
        }
        for (status, body) in kept {
            assert!(!refusal(status, body).is_lost_chain(), "{status} {body}");
        }
    }

    #[test]
    fn calls_are_repeated_only_when_the_reply_says_later() {
        let with = |status, seconds| Refusal {
            retry_after: Some(Duration::from_secs(seconds)),
            ..refusal(status, "")
        };
        let quota = refusal(429, r#"{"error":{"code":"insufficient_quota"}}"#);

        assert_eq!(with(429, 7).pause(1), Some(Duration::from_secs(7)));
        assert_eq!(with(503, 30).pause(1), Some(Duration::from_secs(30)));
        assert_eq!(with(503, 31).pause(1), None);
        assert_eq!(with(500, 1).pause(1), None);
        assert_eq!(refusal(503, "").pause(1), None);
        assert_eq!(refusal(429, "").pause(2), Some(Duration::from_millis(500)));
        assert_eq!(quota.pause(1), None);
    }

    #[test]
    fn a_date_to_wait_for_counts_from_the_reply_s_own() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("Wed, 21 Oct 2026 07:28:09 GMT"));
        assert_eq!(retry_after(&headers), None);

        headers.insert(DATE, HeaderValue::from_static("Wed, 21 Oct 2026 07:28:00 GMT"));
        assert_eq!(retry_after(&headers), Some(Duration::from_secs(9)));

        headers.insert(DATE, HeaderValue::from_static("Wed, 21 Oct 2026 07:29:00 GMT"));
        assert_eq!(retry_after(&headers), Some(Duration::ZERO));
    }

    #[test]
    fn messages_are_short_and_in_the_provider_s_words() {
        let long = refusal(500, Box::leak("é".repeat(2000).into_boxed_str()));

        assert_eq!(refusal(500, "").message(), "the provider answered 500");
        assert_eq!(
            refusal(400, r#"{"error":{"code":"c","message":"m"}}"#).message(),
            "the provider answered 400: m (c)"
        );
        assert_eq!(
            refusal(422, r#"{"detail":[{"msg":"m"}]}"#).message(),
            r#"the provider answered 422: [{"msg":"m"}]"#
        );
        assert_eq!(long.message().chars().filter(|c| *c == 'é').count(), 1000);
    }
}
