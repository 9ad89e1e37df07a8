//! What agents ask, and the answers.

use rusqlite::{OptionalExtension, params};
use skein_core::{
    model::{Permission, PermissionState, SessionId, UserId},
    ports::Conflict,
};

use super::{
    super::{
        error::{Fault, OrConflict},
        rows::{key, opt_key},
    },
    Target,
};

pub(super) fn put(target: &Target<'_>, asked: &Permission, packed: &[u8]) -> Result<(), Fault> {
    target
        .connection
        .prepare_cached(
            "INSERT INTO permissions
                 (org_id, session_id, request_id, turn_id, tool, options, state, answered_by, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            key(&target.org),
            key(&asked.session),
            asked.request_id,
            key(&asked.turn),
            asked.tool_call.tool,
            packed,
            asked.state.as_str(),
            opt_key(&asked.answered_by),
            asked.at.as_millis(),
        ])
        .or_exists("permission")?;
    Ok(())
}

/// Only while it is pending.
pub(super) fn settle(
    target: &Target<'_>,
    (session, request_id): (SessionId, &str),
    state: PermissionState,
    answered_by: Option<UserId>,
) -> Result<(), Fault> {
    let changed = target
        .connection
        .prepare_cached(
            "UPDATE permissions SET state = ?4, answered_by = ?5
             WHERE org_id = ?1 AND session_id = ?2 AND request_id = ?3 AND state = 'pending'",
        )?
        .execute(params![
            key(&target.org),
            key(&session),
            request_id,
            state.as_str(),
            opt_key(&answered_by),
        ])?;
    if changed == 1 {
        return Ok(());
    }
    let found = target
        .connection
        .prepare_cached(
            "SELECT 1 FROM permissions WHERE org_id = ?1 AND session_id = ?2 AND request_id = ?3",
        )?
        .query_row(params![key(&target.org), key(&session), request_id], |_| Ok(()))
        .optional()?;
    Err(match found {
        Some(()) => Conflict::PermissionSettled(request_id.to_owned()).into(),
        None => Conflict::Missing("permission").into(),
    })
}
