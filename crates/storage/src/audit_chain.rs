//! The hash chain over an org's audit rows: changing, removing or moving one breaks every later link.

use sha2::{Digest, Sha256};
use skein_core::model::{OrgId, Timestamp, UserId};

/// A link of the chain.
pub type ChainHash = [u8; 32];

/// What the first row of every org is chained to.
pub const GENESIS: ChainHash = [0; 32];

/// The part of an audit row that its hash covers.
#[derive(Debug, Clone, Copy)]
pub struct ChainedRow<'a> {
    pub org: OrgId,
    /// 1, 2, 3 … per org, without gaps.
    pub chain_no: u64,
    pub at: Timestamp,
    pub actor: UserId,
    pub action: &'a str,
    pub target: &'a str,
    /// JSON, exactly as stored.
    pub detail: &'a [u8],
}

/// SHA-256 over the previous hash and the row; every field goes in with its length, so no two rows look alike.
pub fn chain_hash(previous: &ChainHash, row: &ChainedRow<'_>) -> ChainHash {
    let mut hasher = Sha256::new();
    let fields: [&[u8]; 8] = [
        previous,
        row.org.as_uuid().as_bytes(),
        &row.chain_no.to_be_bytes(),
        &row.at.as_millis().to_be_bytes(),
        row.actor.as_uuid().as_bytes(),
        row.action.as_bytes(),
        row.target.as_bytes(),
        row.detail,
    ];
    for field in fields {
        hasher.update((field.len() as u64).to_be_bytes());
        hasher.update(field);
    }
    hasher.finalize().into()
}

/// Where a chain stops being whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the audit log of org {org} is broken at entry {chain_no}: {reason}")]
pub struct ChainBroken {
    pub org: OrgId,
    pub chain_no: u64,
    pub reason: &'static str,
}

/// Walks one org's chain from its first row.
#[derive(Debug, Clone)]
pub struct ChainVerifier {
    org: OrgId,
    head: ChainHash,
    rows: u64,
}

impl ChainVerifier {
    pub fn new(org: OrgId) -> Self {
        Self { org, head: GENESIS, rows: 0 }
    }

    /// Takes the next row, in chain order.
    pub fn check(&mut self, row: &ChainedRow<'_>, stored: &[u8]) -> Result<(), ChainBroken> {
        let expected = self.rows + 1;
        let broken = |reason| ChainBroken { org: self.org, chain_no: expected, reason };
        if row.chain_no != expected || row.org != self.org {
            return Err(broken("an entry is missing"));
        }
        let hash = chain_hash(&self.head, row);
        if hash.as_slice() != stored {
            return Err(broken("the entry or one before it was changed"));
        }
        self.head = hash;
        self.rows = expected;
        Ok(())
    }

    /// How many rows were found whole.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn row<'a>(chain_no: u64, action: &'a str, target: &'a str) -> ChainedRow<'a> {
        ChainedRow {
            org: OrgId::from_uuid(Uuid::from_u128(1)),
            chain_no,
            at: Timestamp::from_millis(5),
            actor: UserId::from_uuid(Uuid::from_u128(2)),
            action,
            target,
            detail: b"{}",
        }
    }

    #[test]
    fn a_whole_chain_is_accepted_and_a_changed_or_missing_row_is_named() {
        let rows = [row(1, "a", "x"), row(2, "b", "y"), row(3, "c", "z")];
        let mut head = GENESIS;
        let hashes = rows.map(|row| {
            head = chain_hash(&head, &row);
            head
        });
        let org = rows[0].org;

        let mut whole = ChainVerifier::new(org);
        for (row, hash) in rows.iter().zip(&hashes) {
            whole.check(row, hash).unwrap();
        }
        let mut changed = ChainVerifier::new(org);
        let mut missing = ChainVerifier::new(org);
        missing.check(&rows[0], &hashes[0]).unwrap();

        assert_eq!(whole.rows(), 3);
        assert_eq!(changed.check(&row(1, "a", "w"), &hashes[0]).unwrap_err().chain_no, 1);
        assert_eq!(missing.check(&rows[2], &hashes[2]).unwrap_err().reason, "an entry is missing");
    }

    #[test]
    fn moving_a_letter_between_fields_changes_the_hash() {
        assert_ne!(
            chain_hash(&GENESIS, &row(1, "ab", "c")),
            chain_hash(&GENESIS, &row(1, "a", "bc"))
        );
    }
}
