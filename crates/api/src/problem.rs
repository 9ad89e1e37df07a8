//! Why a request was refused or failed.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// An `application/problem+json` answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// `/problems/<code>`.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    /// Stable, for programs.
    #[schema(example = "turn_in_progress")]
    pub code: String,
    /// What happened this time, for people.
    pub detail: String,
    /// Also in the header `x-request-id` and in the server's log.
    pub request_id: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// The turn that is in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub turn_id: Option<Uuid>,
    /// The limit that was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub limit: Option<u64>,
    /// The field, parameter or header that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub field: Option<String>,
    /// The revision that the session is at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub revision: Option<u64>,
}

/// How the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct Health {
    #[schema(example = "ok")]
    pub status: &'static str,
}
