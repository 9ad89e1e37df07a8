//! The one map from what went wrong to `application/problem+json`.

use std::{fmt, sync::Arc, time::Duration};

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use skein_core::{
    Error,
    model::TurnId,
    ports::{Conflict, StoreError},
};

/// Seconds after which a refused request may be tried again, unless it is known better.
const RETRY_AFTER: u32 = 1;
/// What document C asks for when too many agents work.
const ONE_MINUTE: Duration = Duration::from_secs(60);

macro_rules! codes {
    ($($variant:ident = $text:literal, $status:ident, $title:literal, $retry:ident;)+) => {
        /// Why a request was refused, as programs read it. The words are stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Code {
            $($variant,)+
        }

        impl Code {
            #[cfg(test)]
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            pub(crate) const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status),+ }
            }

            const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),+ }
            }

            const fn retry(self) -> Retry {
                match self { $(Self::$variant => Retry::$retry),+ }
            }
        }
    };
}

/// Whether the same request may succeed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retry {
    Never,
    /// When something else has ended.
    Later,
    /// After a pause that the answer names.
    AfterPause,
}

codes! {
    InvalidJson = "invalid_json", BAD_REQUEST, "The body is not valid JSON", Never;
    InvalidRequest = "invalid_request", BAD_REQUEST, "The request is not valid", Never;
    UnknownField = "unknown_field", BAD_REQUEST, "The request has an unknown field", Never;
    InvalidId = "invalid_id", BAD_REQUEST, "The id is not valid", Never;
    InvalidCursor = "invalid_cursor", BAD_REQUEST, "The cursor is not valid", Never;
    InvalidFilter = "invalid_filter", BAD_REQUEST, "The filter is not valid", Never;
    InvalidIdempotencyKey = "invalid_idempotency_key", BAD_REQUEST, "The idempotency key is not valid", Never;
    Unauthenticated = "unauthenticated", UNAUTHORIZED, "A valid token is needed", Never;
    Forbidden = "forbidden", FORBIDDEN, "This is not allowed", Never;
    OriginNotAllowed = "origin_not_allowed", FORBIDDEN, "This origin is not allowed", Never;
    NotFound = "not_found", NOT_FOUND, "Not found", Never;
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "This method is not allowed here", Never;
    TurnInProgress = "turn_in_progress", CONFLICT, "A turn is in progress", Later;
    TurnAlreadyFinished = "turn_already_finished", CONFLICT, "The turn is finished", Never;
    TurnNotFinished = "turn_not_finished", CONFLICT, "The turn is not finished", Later;
    SessionNotActive = "session_not_active", CONFLICT, "The session is not active", Never;
    SessionSuspended = "session_suspended", CONFLICT, "The session is suspended", Never;
    SessionNotSuspended = "session_not_suspended", CONFLICT, "The session is not suspended", Never;
    PermissionSettled = "permission_settled", CONFLICT, "The question is settled", Never;
    IdempotencyInProgress = "idempotency_in_progress", CONFLICT, "The first request is still running", Later;
    AlreadyExists = "already_exists", CONFLICT, "It exists already", Never;
    PreconditionFailed = "precondition_failed", PRECONDITION_FAILED, "The precondition failed", Never;
    PayloadTooLarge = "payload_too_large", PAYLOAD_TOO_LARGE, "The request is too large", Never;
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "The body must be application/json", Never;
    HostNotAllowed = "host_not_allowed", MISDIRECTED_REQUEST, "This host name is not served here", Never;
    EmptyInstruction = "empty_instruction", UNPROCESSABLE_ENTITY, "The instruction is empty", Never;
    PathOutsideWorkspace = "path_outside_workspace", UNPROCESSABLE_ENTITY, "The path is outside the workspace", Never;
    NotARepository = "not_a_repository", UNPROCESSABLE_ENTITY, "The path is not a Git work tree", Never;
    UnknownReference = "unknown_reference", UNPROCESSABLE_ENTITY, "The request names something unknown", Never;
    HashMismatch = "hash_mismatch", UNPROCESSABLE_ENTITY, "The content does not have its hash", Never;
    IdempotencyKeyReused = "idempotency_key_reused", UNPROCESSABLE_ENTITY, "The idempotency key belongs to another request", Never;
    SessionLimit = "session_limit", TOO_MANY_REQUESTS, "Too many sessions with an agent of their own are active", AfterPause;
    StreamLimit = "stream_limit", TOO_MANY_REQUESTS, "Too many open streams", AfterPause;
    QueueFull = "queue_full", TOO_MANY_REQUESTS, "The session's queue is full", AfterPause;
    RateLimited = "rate_limited", TOO_MANY_REQUESTS, "Too many requests", AfterPause;
    Internal = "internal", INTERNAL_SERVER_ERROR, "Something went wrong here", Never;
    StorageUnavailable = "storage_unavailable", SERVICE_UNAVAILABLE, "The storage is unavailable", AfterPause;
    Draining = "draining", SERVICE_UNAVAILABLE, "The server is shutting down", AfterPause;
    StorageFull = "storage_full", INSUFFICIENT_STORAGE, "The storage is full", Later;
}

/// A refusal or failure on its way out. [`crate::edge`] writes its body, because only it knows the request id.
#[derive(Clone)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    detail: String,
    turn: Option<TurnId>,
    limit: Option<u64>,
    field: Option<String>,
    revision: Option<u64>,
    /// Seconds, for refusals that name a pause.
    retry_after: u32,
    /// What is logged and never shown.
    cause: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            turn: None,
            limit: None,
            field: None,
            revision: None,
            retry_after: RETRY_AFTER,
            cause: None,
        }
    }

    pub(crate) fn in_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    pub(crate) fn at_limit(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// When to come back: whole seconds, rounded up, at least one.
    pub(crate) fn after(mut self, pause: Duration) -> Self {
        let rounded_up = pause.as_secs() + u64::from(pause.subsec_nanos() > 0);
        self.retry_after = u32::try_from(rounded_up).unwrap_or(u32::MAX).max(1);
        self
    }

    fn by_turn(mut self, turn: Option<TurnId>) -> Self {
        self.turn = turn;
        self
    }

    /// Something that should not happen: the caller learns no more than that.
    pub(crate) fn internal() -> Self {
        Self::new(Code::Internal, "the request failed; the server's log says why")
    }

    fn caused_by(mut self, error: Error) -> Self {
        self.cause = Some(Arc::new(error));
        self
    }

    /// What the caller is told.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// The cause and its sources in one line, for the log.
    pub(crate) fn cause(&self) -> Option<String> {
        let first: &dyn std::error::Error = self.cause.as_deref()?;
        let chain = std::iter::successors(Some(first), |error| error.source());
        Some(chain.map(ToString::to_string).collect::<Vec<_>>().join(": "))
    }

    /// The body as it is sent.
    pub(crate) fn to_wire(&self, request_id: &str) -> skein_api::Problem {
        skein_api::Problem {
            kind: format!("/problems/{}", self.code.as_str()),
            title: self.code.title().to_owned(),
            status: self.code.status().as_u16(),
            code: self.code.as_str().to_owned(),
            detail: self.detail.clone(),
            request_id: request_id.to_owned(),
            retryable: self.code.retry() != Retry::Never,
            turn_id: self.turn.map(|turn| *turn.as_uuid()),
            limit: self.limit,
            field: self.field.clone(),
            revision: self.revision,
        }
    }
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Problem").field("code", &self.code).field("detail", &self.detail).finish()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        let headers = response.headers_mut();
        if self.code.retry() == Retry::AfterPause {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(self.retry_after));
        }
        if self.code == Code::Unauthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        let problem = |code| Self::new(code, detail.clone());
        match error {
            Error::NotFound { .. } => problem(Code::NotFound),
            Error::Forbidden { .. } => problem(Code::Forbidden),
            Error::Invalid { field, .. } => problem(Code::InvalidRequest).in_field(field),
            Error::InvalidFilter { field, .. } => problem(Code::InvalidFilter).in_field(field),
            Error::InvalidCursor { .. } => problem(Code::InvalidCursor),
            Error::EmptyInstruction => problem(Code::EmptyInstruction),
            Error::TooLarge { what, limit, .. } => {
                problem(Code::PayloadTooLarge).in_field(what).at_limit(limit)
            }
            Error::UnknownReference { field, .. } => {
                problem(Code::UnknownReference).in_field(field)
            }
            Error::PathOutsideWorkspace { .. } => problem(Code::PathOutsideWorkspace),
            Error::NoWorkspaceRoot => problem(Code::PathOutsideWorkspace),
            Error::NotARepository { .. } => problem(Code::NotARepository),
            Error::AlreadyExists { .. } => problem(Code::AlreadyExists),
            Error::HashMismatch { .. } => problem(Code::HashMismatch),
            Error::TurnInProgress { turn } => problem(Code::TurnInProgress).by_turn(turn),
            Error::TurnAlreadyFinished { turn } => {
                problem(Code::TurnAlreadyFinished).by_turn(Some(turn))
            }
            Error::TurnNotFinished { turn } => problem(Code::TurnNotFinished).by_turn(Some(turn)),
            Error::SessionNotActive { .. } => problem(Code::SessionNotActive),
            Error::SessionSuspended => problem(Code::SessionSuspended),
            Error::SessionNotSuspended { .. } => problem(Code::SessionNotSuspended),
            Error::PreconditionFailed { revision } => {
                Self { revision: Some(revision), ..problem(Code::PreconditionFailed) }
            }
            Error::IdempotencyKeyReused => problem(Code::IdempotencyKeyReused),
            Error::IdempotencyInProgress { turn } => {
                problem(Code::IdempotencyInProgress).by_turn(Some(turn))
            }
            Error::QueueFull { limit } => problem(Code::QueueFull).at_limit(limit.into()),
            Error::SessionLimit { limit } => {
                let detail = format!(
                    "{limit} sessions with an agent of their own are active, which is the limit of this server; wait \
                     until one ends, or complete or suspend one"
                );
                Problem::new(Code::SessionLimit, detail).at_limit(limit.into()).after(ONE_MINUTE)
            }
            Error::PermissionSettled => problem(Code::PermissionSettled),
            Error::Draining => problem(Code::Draining),
            error @ Error::IndexUnavailable(_) => {
                Problem::new(Code::StorageUnavailable, "the index does not answer; try again")
                    .caused_by(error)
            }
            Error::Transition(transition) if transition.entity == "turn" => {
                problem(Code::TurnAlreadyFinished)
            }
            Error::Transition(_) => problem(Code::SessionNotActive),
            Error::Store(store) => from_store(store),
        }
    }
}

/// What a store says of itself is for the log.
fn from_store(error: StoreError) -> Problem {
    match error {
        StoreError::Conflict(conflict) => from_conflict(&conflict),
        StoreError::Full => {
            Problem::new(Code::StorageFull, "the disk is full; nothing was written")
                .caused_by(error.into())
        }
        StoreError::Unavailable(_) => {
            Problem::new(Code::StorageUnavailable, "the storage does not answer; try again")
                .caused_by(error.into())
        }
        StoreError::Corrupt { .. } => Problem::internal().caused_by(error.into()),
    }
}

/// Conflicts are settled inside the services; those that reach a caller were lost again and again.
fn from_conflict(conflict: &Conflict) -> Problem {
    let problem = |code| Problem::new(code, conflict.to_string());
    match conflict {
        Conflict::SessionChanged(_) => {
            Problem::new(Code::StorageUnavailable, "others keep changing the session; try again")
        }
        Conflict::TurnRunning => problem(Code::TurnInProgress),
        Conflict::TurnStarted(turn) => problem(Code::TurnInProgress).by_turn(Some(*turn)),
        Conflict::TurnFinished(turn) => problem(Code::TurnAlreadyFinished).by_turn(Some(*turn)),
        Conflict::LimitReached(_) => problem(Code::QueueFull),
        Conflict::PermissionSettled(_) => problem(Code::PermissionSettled),
        Conflict::IdempotencyKeyUsed => problem(Code::IdempotencyInProgress),
        Conflict::AlreadyExists(_) => problem(Code::AlreadyExists),
        Conflict::Missing(_) => problem(Code::NotFound),
    }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
