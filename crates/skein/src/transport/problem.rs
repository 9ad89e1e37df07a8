//! From a refusal on the wire to a failure with an exit code.

use ::http::StatusCode;
use bytes::Bytes;
use serde::Deserialize;

use crate::failure::{Exit, Failure};

/// What is read of `application/problem+json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Problem {
    title: String,
    detail: String,
    code: String,
    #[serde(rename = "requestId")]
    request_id: String,
}

/// What the server said instead of doing what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    status: StatusCode,
    raw: Bytes,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, raw: Bytes) -> Self {
        Self { status, raw }
    }

    /// The stable word for it, or nothing when this is not a problem of ours.
    pub(crate) fn code(&self) -> String {
        serde_json::from_slice::<Problem>(&self.raw).unwrap_or_default().code
    }

    pub(crate) fn failure(&self) -> Failure {
        failure(self.status, &self.raw)
    }
}

fn failure(status: StatusCode, body: &[u8]) -> Failure {
    let problem: Problem = serde_json::from_slice(body).unwrap_or_default();
    let text = [problem.detail, problem.title].into_iter().find(|text| !text.is_empty());
    let text = text.unwrap_or_else(|| format!("the server answered {status}"));
    let message = match problem.code.as_str() {
        "" => text,
        code => format!("{text} ({code})"),
    };
    let failure = Failure::new(exit(status), message);
    match hint(&problem.code) {
        Some(hint) => failure.hint(hint),
        None if status.is_server_error() && !problem.request_id.is_empty() => {
            failure.hint(format!("the server's log has more under request {}", problem.request_id))
        }
        None => failure,
    }
}

fn exit(status: StatusCode) -> Exit {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Exit::Auth,
        StatusCode::NOT_FOUND => Exit::NotFound,
        StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED => Exit::Conflict,
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT
        | StatusCode::INSUFFICIENT_STORAGE => Exit::Unavailable,
        status if status.is_client_error() => Exit::Usage,
        _ => Exit::Failed,
    }
}

fn hint(code: &str) -> Option<&'static str> {
    match code {
        "unauthenticated" => {
            Some("SKEIN_TOKEN or the token file of the home must hold a live token")
        }
        "forbidden" => Some("use a token with a stronger role"),
        "turn_in_progress" => {
            Some("wait for the running turn with skein turn wait, or end it with skein turn cancel")
        }
        "draining" => Some("the server is shutting down; try again once it has restarted"),
        "storage_full" => Some("free some space on the disk of the home"),
        "host_not_allowed" => {
            Some("add the host to allowed_hosts in [server] of the server's settings")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_refusal_has_its_exit_code() {
        let codes = [400, 401, 403, 404, 409, 412, 413, 422, 429, 500, 503, 507]
            .map(|status| failure(StatusCode::from_u16(status).unwrap(), b"").exit as u8);

        assert_eq!(codes, [2, 4, 4, 3, 5, 5, 2, 2, 6, 1, 6, 6]);
    }

    #[test]
    fn the_servers_words_are_kept_and_other_bodies_do_not_hurt() {
        let problem = br#"{"title":"Not found","detail":"session not found","code":"not_found"}"#;

        let told = failure(StatusCode::NOT_FOUND, problem);
        let strange = failure(StatusCode::BAD_GATEWAY, b"<html>");

        assert_eq!(told.to_string(), "session not found (not_found)");
        assert_eq!(strange.to_string(), "the server answered 502 Bad Gateway");
    }
}
