//! What the index already knows about a file.

use rusqlite::{Connection, params};

use super::readers::Readers;
use crate::{
    fault::Fault,
    pipeline::{self, Evidence, Known},
    walk::{Found, Stat},
};

/// The files of one corpus.
pub(super) struct Ledger<'a> {
    pub readers: &'a Readers,
    pub corpus: i64,
}

impl pipeline::Ledger for Ledger<'_> {
    type Id = i64;

    fn known(&self, files: &[Found]) -> Result<Vec<Vec<Known<i64>>>, Fault> {
        self.readers.take()?.snapshot(|db| {
            let rows = files.iter().map(|file| rows(db, self.corpus, file));
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }
}

/// The rows of a path, the visible one first.
fn rows(db: &Connection, corpus: i64, found: &Found) -> rusqlite::Result<Vec<Known<i64>>> {
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
            chunks: row.get::<_, i64>(1)?.cast_unsigned(),
            sha256: row.get(2)?,
            evidence: Evidence { stat, blob: row.get(7)? },
        })
    })?;
    rows.collect()
}
