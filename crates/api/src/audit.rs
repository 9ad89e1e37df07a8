//! The audit log.

use serde::Serialize;
use serde_json::Value;
use skein_core::model;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::Time;

/// One sealed line of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// 1, 2, 3 … without gaps.
    pub number: u64,
    pub at: Time,
    /// The user on whose behalf it was done.
    pub actor_id: Uuid,
    /// What was done.
    #[schema(example = "session.suspended")]
    pub action: String,
    /// What it was done to.
    pub target: String,
    #[schema(value_type = Object)]
    pub detail: Value,
    /// SHA-256 in hex, over this line and the hash of the one before.
    pub hash: String,
}

/// A page of the audit log, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditList {
    pub entries: Vec<AuditEntry>,
    /// The `after` of the next page, if there is one.
    pub next_cursor: Option<String>,
}

/// What a check of the audit log found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditReport {
    /// Sealed lines, from the first on, that are as they were written.
    pub intact: u64,
    /// Lines that wait to be sealed.
    pub unsealed: u64,
    /// The newest sealed line; kept elsewhere, it tells later whether the log was cut.
    pub head: Option<AuditHead>,
    /// The first line that is not as it was written.
    pub problem: Option<AuditProblem>,
}

/// The newest sealed line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct AuditHead {
    pub number: u64,
    /// SHA-256 in hex.
    pub hash: String,
}

/// Where the log was tampered with, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct AuditProblem {
    pub kind: AuditProblemKind,
    /// The first line that is affected.
    pub number: u64,
    /// For people.
    pub message: String,
}

/// How a line is not as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditProblemKind {
    Changed,
    Missing,
    Reordered,
    /// The end of the log is gone.
    Truncated,
}

impl From<model::AuditRow> for AuditEntry {
    fn from(row: model::AuditRow) -> Self {
        Self {
            number: row.number,
            at: row.at.into(),
            actor_id: *row.actor.as_uuid(),
            action: row.action,
            target: row.target,
            detail: row.detail,
            hash: row.hash.to_string(),
        }
    }
}

impl From<model::AuditReport> for AuditReport {
    fn from(report: model::AuditReport) -> Self {
        let head =
            |head: model::AuditHead| AuditHead { number: head.number, hash: head.hash.to_string() };
        Self {
            intact: report.intact,
            unsealed: report.unsealed,
            head: report.head.map(head),
            problem: report.problem.map(AuditProblem::from),
        }
    }
}

impl From<model::AuditProblem> for AuditProblem {
    fn from(problem: model::AuditProblem) -> Self {
        let message = problem.to_string();
        let (kind, number) = match problem {
            model::AuditProblem::Changed { number } => (AuditProblemKind::Changed, number),
            model::AuditProblem::Missing { number } => (AuditProblemKind::Missing, number),
            model::AuditProblem::Reordered { number } => (AuditProblemKind::Reordered, number),
            model::AuditProblem::Truncated { found, .. } => {
                (AuditProblemKind::Truncated, found.saturating_add(1))
            }
        };
        Self { kind, number, message }
    }
}
