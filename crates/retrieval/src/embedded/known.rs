//! What the index already knows about a file.

use rusqlite::{Connection, params};
use skein_core::model::Sha256Hash;

use crate::walk::{Found, Source, Stat};

/// A file's content is taken as unchanged without reading it only if it was written so long before the run that read
/// it that any later change shows in its times: Git's rule for "racy" entries, with room for coarse clocks.
const SETTLED_NS: i64 = 2_000_000_000;

/// What will show that a file is the one that was indexed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Evidence {
    pub stat: Option<Stat>,
    pub blob: Option<String>,
}

impl Evidence {
    /// `now_ns` is what the file system's clock said when the run began.
    pub(super) fn of(source: &Source, now_ns: i64) -> Self {
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

/// A row of a file that is visible, or that a run before put there.
#[derive(Debug)]
pub(super) struct Known {
    pub id: i64,
    pub chunks: u64,
    sha256: [u8; 32],
    evidence: Evidence,
}

/// A row that stays, and what to note about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub id: i64,
    pub chunks: u64,
    pub evidence: Option<Evidence>,
}

/// The rows of a path, the visible one first.
pub(super) fn rows(db: &Connection, corpus: i64, found: &Found) -> rusqlite::Result<Vec<Known>> {
    let mut statement = db.prepare_cached(
        "SELECT id, chunks, sha256, size, mtime_ns, ctime_ns, inode, blob FROM files
         WHERE corpus = ?1 AND path = ?2 AND to_gen IS NULL ORDER BY from_gen",
    )?;
    let rows = statement.query_map(params![corpus, found.path], |row| {
        let number = |at: usize| row.get::<_, Option<i64>>(at);
        let stat = match (number(3)?, number(4)?, number(5)?, number(6)?) {
            (Some(size), Some(mtime_ns), Some(ctime_ns), Some(inode)) => Some(Stat {
                size: size.cast_unsigned(),
                mtime_ns,
                ctime_ns,
                inode: inode.cast_unsigned(),
            }),
            _ => None,
        };
        Ok(Known {
            id: row.get(0)?,
            chunks: row.get(1)?,
            sha256: row.get(2)?,
            evidence: Evidence { stat, blob: row.get(7)? },
        })
    })?;
    rows.collect()
}

/// The row that is shown to be the file's without reading it.
pub(super) fn shown(rows: &[Known], source: &Source) -> Option<Kept> {
    let known = rows.iter().find(|known| known.evidence.shows(source))?;
    Some(Kept { id: known.id, chunks: known.chunks, evidence: None })
}

/// The row whose content is the file's.
pub(super) fn same(rows: &[Known], sha256: &Sha256Hash, evidence: &Evidence) -> Option<Kept> {
    let known = rows.iter().find(|known| known.sha256 == *sha256.as_bytes())?;
    let evidence = known.evidence.renewed(evidence.clone());
    Some(Kept { id: known.id, chunks: known.chunks, evidence })
}
