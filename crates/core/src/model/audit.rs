//! The audit log as it is read and checked.

use serde_json::Value;

use super::{Sha256Hash, Timestamp, UserId};

/// One sealed line of an org's audit log.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRow {
    /// 1, 2, 3 … without gaps in each org.
    pub number: u64,
    pub at: Timestamp,
    pub actor: UserId,
    pub action: String,
    pub target: String,
    pub detail: Value,
    /// Over this row and the hash of the one before.
    pub hash: Sha256Hash,
}

/// The newest sealed row: whoever keeps it elsewhere can tell later if the log was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditHead {
    pub number: u64,
    pub hash: Sha256Hash,
}

/// What a check of an org's audit log found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditReport {
    /// Sealed rows that are as they were written.
    pub intact: u64,
    /// Rows that wait to be sealed.
    pub unsealed: u64,
    pub head: Option<AuditHead>,
    /// The first row that is not as it was written.
    pub problem: Option<AuditProblem>,
}

/// Where an audit log was tampered with, and how.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditProblem {
    #[error("row {number} was changed")]
    Changed { number: u64 },
    #[error("row {number} is missing")]
    Missing { number: u64 },
    #[error("row {number} stands in another's place")]
    Reordered { number: u64 },
    #[error("the log ends at row {found}, but row {expected} was seen before")]
    Truncated { found: u64, expected: u64 },
}
