//! Texts that were uploaded to a session.

use super::{DocumentId, LogId, PayloadId, Timestamp, UserId};

/// A specification, a schema, a note: found in its session and the session's forks only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub id: DocumentId,
    pub log: LogId,
    pub name: String,
    pub media_type: String,
    /// The whole text.
    pub text: PayloadId,
    pub size_bytes: u64,
    pub created_by: UserId,
    pub created_at: Timestamp,
}
