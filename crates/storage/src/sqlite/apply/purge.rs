//! Removing a session for good.

use rusqlite::{OptionalExtension, params};
use skein_core::{model::SessionId, ports::Conflict};

use super::{
    super::{error::Fault, rows::key},
    Target,
};

/// What names the session and goes with it. Its tickets stay, as the record of what was done.
const OF_SESSION: [&str; 6] = [
    "UPDATE tickets SET session_id = NULL WHERE org_id = ?1 AND session_id = ?2",
    "DELETE FROM permissions WHERE org_id = ?1 AND session_id = ?2",
    "DELETE FROM checkpoints WHERE org_id = ?1 AND session_id = ?2",
    "DELETE FROM session_access WHERE org_id = ?1 AND session_id = ?2",
    "DELETE FROM session_segments WHERE org_id = ?1 AND session_id = ?2",
    "DELETE FROM sessions WHERE org_id = ?1 AND id = ?2",
];

/// The log first: only then may its events go, and then they must. Chains go with their log, plans with their turns.
const OF_LOG: [&str; 6] = [
    "DELETE FROM logs WHERE org_id = ?1 AND id = ?2",
    "DELETE FROM events WHERE org_id = ?1 AND log_id = ?2",
    "DELETE FROM turns WHERE org_id = ?1 AND log_id = ?2",
    "DELETE FROM payload_parts WHERE org_id = ?1 AND payload_id IN (
         SELECT id FROM payloads WHERE org_id = ?1 AND log_id = ?2 AND location = 'parts')",
    "DELETE FROM payloads WHERE org_id = ?1 AND log_id = ?2",
    "DELETE FROM token_usage WHERE org_id = ?1 AND subject_kind = 'log' AND subject_id = ?2",
];

/// A log lives while any session reads it, so the forks of a purged session stay whole.
pub(super) fn purge(target: &Target<'_>, session: SessionId) -> Result<(), Fault> {
    let org = key(&target.org);
    let mut logs = target.connection.prepare_cached(
        "SELECT DISTINCT log_id FROM session_segments WHERE org_id = ?1 AND session_id = ?2",
    )?;
    let logs = logs
        .query_map(params![org, key(&session)], |row| row.get::<_, [u8; 16]>(0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    if logs.is_empty() {
        return Err(Conflict::Missing("session").into());
    }
    for statement in OF_SESSION {
        target.connection.prepare_cached(statement)?.execute(params![org, key(&session)])?;
    }
    for log in logs {
        let reader = target
            .connection
            .prepare_cached("SELECT 1 FROM session_segments WHERE org_id = ?1 AND log_id = ?2")?
            .query_row(params![org, log], |_| Ok(()))
            .optional()?;
        if reader.is_none() {
            for statement in OF_LOG {
                target.connection.prepare_cached(statement)?.execute(params![org, log])?;
            }
        }
    }
    Ok(())
}
