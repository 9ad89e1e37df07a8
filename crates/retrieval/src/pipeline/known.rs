//! What the index already knows about a file.

use skein_core::model::Sha256Hash;

use crate::walk::{Source, Stat};

/// A file's content is taken as unchanged without reading it only if it was written so long before the run that read
/// it that any later change shows in its times: Git's rule for "racy" entries, with room for coarse clocks.
const SETTLED_NS: i64 = 2_000_000_000;

/// What will show that a file is the one that was indexed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Evidence {
    pub stat: Option<Stat>,
    pub blob: Option<String>,
}

impl Evidence {
    /// `now_ns` is what the file system's clock said when the run began.
    pub(crate) fn of(source: &Source, now_ns: i64) -> Self {
        match source {
            Source::Blob { oid } => Self { stat: None, blob: Some(oid.clone()) },
            Source::File(stat) => {
                let is_settled =
                    stat.ctime_ns.max(stat.mtime_ns) < now_ns.saturating_sub(SETTLED_NS);
                Self { stat: is_settled.then_some(*stat), blob: None }
            }
        }
    }

    fn shows(&self, source: &Source) -> bool {
        match source {
            Source::File(stat) => self.stat == Some(*stat),
            Source::Blob { oid } => self.blob.as_ref() == Some(oid),
        }
    }

    /// What to remember of a file whose content was compared.
    fn renewed(&self, seen: Self) -> Option<Self> {
        let merged =
            Self { stat: seen.stat.or(self.stat), blob: seen.blob.or_else(|| self.blob.clone()) };
        (merged != *self).then_some(merged)
    }
}

/// A version of a file that is visible, or that a run before put there.
#[derive(Debug)]
pub(crate) struct Known<I> {
    pub id: I,
    pub chunks: u64,
    pub sha256: [u8; 32],
    pub evidence: Evidence,
}

/// What stays, and what to note about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kept<I> {
    pub id: I,
    pub chunks: u64,
    pub evidence: Option<Evidence>,
}

/// The row that is shown to be the file's without reading it.
pub(super) fn shown<I: Copy>(rows: &[Known<I>], source: &Source) -> Option<Kept<I>> {
    let known = rows.iter().find(|known| known.evidence.shows(source))?;
    Some(Kept { id: known.id, chunks: known.chunks, evidence: None })
}

/// The row whose content is the file's.
pub(super) fn same<I: Copy>(
    rows: &[Known<I>],
    sha256: &Sha256Hash,
    evidence: &Evidence,
) -> Option<Kept<I>> {
    let known = rows.iter().find(|known| known.sha256 == *sha256.as_bytes())?;
    let evidence = known.evidence.renewed(evidence.clone());
    Some(Kept { id: known.id, chunks: known.chunks, evidence })
}
