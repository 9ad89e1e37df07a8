//! The audit log: rows are chained as they are written, and can be checked at any time.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};
use skein_core::model::OrgId;

use super::{
    error::Fault,
    prepared::PreparedAudit,
    rows::{Columns, int, key},
};
use crate::audit_chain::{ChainBroken, ChainHash, ChainVerifier, ChainedRow, GENESIS, chain_hash};

/// The newest committed link of each org. Nothing is in here that could be rolled back.
pub(super) type Heads = HashMap<OrgId, Head>;

/// The newest link of a chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    chain_no: u64,
    hash: ChainHash,
}

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
            action: entry.action,
            target: &entry.target,
            detail: &entry.detail,
        };
        let hash = chain_hash(&head.hash, &row);
        insert(connection, &row, &hash)?;
        sealed.insert(entry.org, Head { chain_no: row.chain_no, hash });
    }
    Ok(sealed)
}

/// Walks the whole chain of an org. Returns how many rows were found whole, or where it breaks.
pub(super) fn verify(
    connection: &Connection,
    org: OrgId,
) -> Result<Result<u64, ChainBroken>, Fault> {
    let mut verifier = ChainVerifier::new(org);
    let mut statement = connection.prepare_cached(
        "SELECT chain_no, at, actor, action, target, detail, chain_hash FROM audit
         WHERE org_id = ?1 AND chain_no IS NOT NULL ORDER BY chain_no",
    )?;
    let mut rows = statement.query(params![key(&org)])?;
    while let Some(row) = rows.next()? {
        let mut columns = Columns::new("audit row", row);
        let (chain_no, at, actor) = (columns.counter()?, columns.time()?, columns.id()?);
        let (action, target): (String, String) = (columns.get()?, columns.get()?);
        let (detail, stored): (Vec<u8>, Vec<u8>) = (columns.get()?, columns.get()?);
        let row = ChainedRow {
            org,
            chain_no,
            at,
            actor,
            action: &action,
            target: &target,
            detail: &detail,
        };
        if let Err(broken) = verifier.check(&row, &stored) {
            return Ok(Err(broken));
        }
    }
    Ok(Ok(verifier.rows()))
}

fn stored_head(connection: &Connection, org: OrgId) -> Result<Head, Fault> {
    let stored: Option<(i64, ChainHash)> = connection
        .prepare_cached(
            "SELECT chain_no, chain_hash FROM audit WHERE org_id = ?1 AND chain_no IS NOT NULL
             ORDER BY chain_no DESC LIMIT 1",
        )?
        .query_row(params![key(&org)], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let genesis = Head { chain_no: 0, hash: GENESIS };
    Ok(stored.map_or(genesis, |(no, hash)| Head { chain_no: no.unsigned_abs(), hash }))
}

fn insert(connection: &Connection, row: &ChainedRow<'_>, hash: &ChainHash) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "INSERT INTO audit (org_id, at, actor, action, target, detail, chain_no, chain_hash)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            key(&row.org),
            row.at.as_millis(),
            key(&row.actor),
            row.action,
            row.target,
            row.detail,
            int(row.chain_no),
            hash,
        ])?;
    Ok(())
}
