//! The hash chain over an org's audit rows: changing, removing or moving one breaks every later link.

use sha2::{Digest, Sha256};
use skein_core::model::{
    AuditHead, AuditProblem, AuditReport, OrgId, Sha256Hash, Timestamp, UserId,
};

/// A link of the chain.
pub type ChainHash = [u8; 32];

/// What the first row of every org is chained to.
pub const GENESIS: ChainHash = [0; 32];

/// Rows that are sealed or checked at once, so that neither needs much memory or a long transaction.
pub const PAGE_ROWS: u32 = 500;

/// The part of an audit row that its hash covers.
#[derive(Debug, Clone, Copy)]
pub struct ChainedRow<'a> {
    pub org: OrgId,
    /// 1, 2, 3 … per org, without gaps.
    pub chain_no: u64,
    pub at: Timestamp,
    pub actor: UserId,
    /// As stored: a row that was tampered with need not be text any more.
    pub action: &'a [u8],
    pub target: &'a [u8],
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
        row.action,
        row.target,
        row.detail,
    ];
    for field in fields {
        hasher.update((field.len() as u64).to_be_bytes());
        hasher.update(field);
    }
    hasher.finalize().into()
}

/// The newest link of an org's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub chain_no: u64,
    pub hash: ChainHash,
}

impl Head {
    /// Before the first row.
    pub const NONE: Self = Self { chain_no: 0, hash: GENESIS };

    /// Chains the row to this head, whatever number it had, and returns the new head.
    pub fn followed_by(&self, row: &ChainedRow<'_>) -> Self {
        let chain_no = self.chain_no + 1;
        Self { chain_no, hash: chain_hash(&self.hash, &ChainedRow { chain_no, ..*row }) }
    }
}

/// A sealed row as an engine read it.
#[derive(Debug, Clone)]
pub struct StoredRow {
    pub chain_no: u64,
    /// What the rest of the row says, or nothing when it cannot even be read.
    pub content: Option<StoredContent>,
    pub hash: Vec<u8>,
}

/// What an audit row says beside its place.
#[derive(Debug, Clone)]
pub struct StoredContent {
    pub at: Timestamp,
    pub actor: UserId,
    pub action: Vec<u8>,
    pub target: Vec<u8>,
    pub detail: Vec<u8>,
}

impl StoredContent {
    fn at_place(&self, org: OrgId, chain_no: u64) -> ChainedRow<'_> {
        ChainedRow {
            org,
            chain_no,
            at: self.at,
            actor: self.actor,
            action: &self.action,
            target: &self.target,
            detail: &self.detail,
        }
    }
}

/// Walks one org's chain from its first row and names the first place where it is not whole.
///
/// A chain alone cannot show that its end was cut off; a head that was kept elsewhere can.
#[derive(Debug)]
pub struct ChainVerifier {
    org: OrgId,
    seen: Option<AuditHead>,
    head: Head,
    finding: Finding,
}

/// What is known so far.
#[derive(Debug)]
enum Finding {
    Whole,
    /// The row after the head does not fit. If a later one does, the two changed places.
    Misfit {
        hash: Vec<u8>,
    },
    Problem(AuditProblem),
}

impl ChainVerifier {
    /// `seen` is a head that was kept elsewhere.
    pub fn new(org: OrgId, seen: Option<AuditHead>) -> Self {
        Self { org, seen, head: Head::NONE, finding: Finding::Whole }
    }

    /// Takes the next row, in the order of `chain_no`. Once this is false no further row is needed.
    pub fn check(&mut self, row: &StoredRow) -> bool {
        self.finding = match std::mem::replace(&mut self.finding, Finding::Whole) {
            Finding::Whole => self.extend(row),
            Finding::Misfit { hash } => self.look_for_the_place_of(row, hash),
            Finding::Problem(problem) => Finding::Problem(problem),
        };
        !matches!(self.finding, Finding::Problem(_))
    }

    /// What was found. `unsealed` rows wait for their place in the chain.
    pub fn report(self, unsealed: u64) -> AuditReport {
        let problem = match self.finding {
            Finding::Whole => self.cut_off(),
            Finding::Misfit { .. } => {
                Some(AuditProblem::Changed { number: self.head.chain_no + 1 })
            }
            Finding::Problem(problem) => Some(problem),
        };
        let Head { chain_no: intact, hash } = self.head;
        let hash = Sha256Hash::from_bytes(hash);
        let head = (intact > 0).then_some(AuditHead { number: intact, hash });
        AuditReport { intact, unsealed, head, problem }
    }

    fn extend(&mut self, row: &StoredRow) -> Finding {
        let place = self.head.chain_no + 1;
        if row.chain_no != place {
            return Finding::Problem(AuditProblem::Missing { number: place });
        }
        match self.fitting(row) {
            Some(head) if head.hash.as_slice() == row.hash => {
                if self.seen.is_some_and(|seen| differs(&seen, &head)) {
                    // The log was cut before this row and has grown again since.
                    let (found, expected) = (place - 1, place);
                    return Finding::Problem(AuditProblem::Truncated { found, expected });
                }
                self.head = head;
                Finding::Whole
            }
            _ => Finding::Misfit { hash: row.hash.clone() },
        }
    }

    /// A row that was moved has taken its hash along or has left it behind.
    fn look_for_the_place_of(&self, row: &StoredRow, misfit: Vec<u8>) -> Finding {
        match self.fitting(row) {
            Some(head) if [&misfit, &row.hash].contains(&&head.hash.to_vec()) => {
                Finding::Problem(AuditProblem::Reordered { number: head.chain_no })
            }
            _ => Finding::Misfit { hash: misfit },
        }
    }

    /// The head that this row would make if it stood in the next place.
    fn fitting(&self, row: &StoredRow) -> Option<Head> {
        let content = row.content.as_ref()?;
        Some(self.head.followed_by(&content.at_place(self.org, self.head.chain_no + 1)))
    }

    fn cut_off(&self) -> Option<AuditProblem> {
        let (found, expected) = (self.head.chain_no, self.seen?.number);
        (found < expected).then_some(AuditProblem::Truncated { found, expected })
    }
}

fn differs(seen: &AuditHead, head: &Head) -> bool {
    seen.number == head.chain_no && *seen.hash.as_bytes() != head.hash
}

#[cfg(test)]
#[path = "audit_chain_tests.rs"]
mod tests;
