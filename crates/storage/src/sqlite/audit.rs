//! The audit log: rows are chained as they are written.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};
use skein_core::model::OrgId;

use super::{
    error::Fault,
    prepared::PreparedAudit,
    rows::{int, key},
};
use crate::audit_chain::{ChainHash, ChainedRow, Head};

/// The newest committed link of each org. Nothing is in here that could be rolled back.
pub(super) type Heads = HashMap<OrgId, Head>;

/// Writes the rows with their links and returns the new heads, to be kept once this is committed.
pub(super) fn seal<'a>(
    connection: &Connection,
    heads: &Heads,
    entries: impl Iterator<Item = &'a PreparedAudit>,
) -> Result<Heads, Fault> {
    let mut sealed = Heads::new();
    for entry in entries {
        let known = sealed.get(&entry.org).or_else(|| heads.get(&entry.org));
        let head = match known {
            Some(head) => *head,
            None => stored_head(connection, entry.org)?,
        };
        let row = ChainedRow {
            org: entry.org,
            chain_no: head.chain_no + 1,
            at: entry.at,
            actor: entry.actor,
            action: entry.action.as_bytes(),
            target: entry.target.as_bytes(),
            detail: &entry.detail,
        };
        let head = head.followed_by(&row);
        insert(connection, entry, &head)?;
        sealed.insert(entry.org, head);
    }
    Ok(sealed)
}

fn stored_head(connection: &Connection, org: OrgId) -> Result<Head, Fault> {
    let stored: Option<(i64, ChainHash)> = connection
        .prepare_cached(
            "SELECT chain_no, chain_hash FROM audit WHERE org_id = ?1 AND chain_no IS NOT NULL
             ORDER BY chain_no DESC LIMIT 1",
        )?
        .query_row(params![key(&org)], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(stored.map_or(Head::NONE, |(no, hash)| Head { chain_no: no.unsigned_abs(), hash }))
}

fn insert(connection: &Connection, entry: &PreparedAudit, head: &Head) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "INSERT INTO audit (org_id, at, actor, action, target, detail, chain_no, chain_hash)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            key(&entry.org),
            entry.at.as_millis(),
            key(&entry.actor),
            entry.action,
            entry.target,
            entry.detail,
            int(head.chain_no),
            head.hash,
        ])?;
    Ok(())
}
