//! Tokens that were used.

use rusqlite::params;
use skein_core::{
    model::{LogId, Timestamp, Usage, UserId},
    ports::UsageSubject,
};

use super::{
    super::{
        error::Fault,
        rows::{int, key},
    },
    Target,
};
use crate::usage;

/// Adds the tokens of a turn to those of its org, its creator and its log.
pub(super) fn add(
    target: &Target<'_>,
    (user, log): (UserId, LogId),
    used: Usage,
    at: Timestamp,
) -> Result<(), Fault> {
    let tokens = int(used.input_tokens.saturating_add(used.output_tokens));
    for subject in [UsageSubject::Org, UsageSubject::User(user), UsageSubject::Log(log)] {
        let (kind, id) = usage::key(target.org, subject);
        target
            .connection
            .prepare_cached(
                "INSERT INTO token_usage (org_id, subject_kind, subject_id, day, tokens)
                 VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO UPDATE SET tokens = tokens + excluded.tokens",
            )?
            .execute(params![key(&target.org), kind, id.as_bytes(), usage::day(at), tokens])?;
    }
    Ok(())
}
