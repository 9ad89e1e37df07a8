//! Writes and removes the rows of files.

use rusqlite::{Connection, params};

use crate::{
    fault::Fault,
    pipeline::{Evidence, Kept, NewFile, NewPassage},
};

/// Rows that one transaction removes.
const REMOVED_AT_ONCE: usize = 200;

/// Where a file's rows go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub corpus: i64,
    pub org: &'a [u8; 16],
    pub generation: i64,
    /// Log and document, of a document.
    pub document: Option<(&'a [u8; 16], &'a [u8; 16])>,
}

/// Returns the id of the file's row.
pub(super) fn insert_file(
    db: &Connection,
    place: &Place<'_>,
    file: &NewFile,
) -> rusqlite::Result<i64> {
    let Evidence { stat, blob } = &file.evidence;
    let mut statement = db.prepare_cached(
        "INSERT INTO files (org_id, corpus, path, language, sha256, chunks, from_gen,
                            size, mtime_ns, ctime_ns, inode, blob, log_id, document_id)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?;
    let id = statement.insert(params![
        place.org,
        place.corpus,
        file.path,
        file.language,
        file.sha256.as_bytes(),
        file.passages.len() as i64,
        place.generation,
        stat.map(|stat| stat.size.cast_signed()),
        stat.map(|stat| stat.mtime_ns),
        stat.map(|stat| stat.ctime_ns),
        stat.map(|stat| stat.inode.cast_signed()),
        blob,
        place.document.map(|(log, _)| log),
        place.document.map(|(_, document)| document),
    ])?;
    let scope = place.document.map(|(log, _)| uuid::Uuid::from_bytes(*log).simple().to_string());
    for (ordinal, passage) in file.passages.iter().enumerate() {
        let chunk = insert_chunk(db, place, (id, ordinal), passage)?;
        let mut statement = db.prepare_cached(&format!(
            "INSERT INTO fts_{} (rowid, scope, symbol, path, text) VALUES (?1, ?2, ?3, ?4, ?5)",
            place.corpus
        ))?;
        let NewPassage { symbol_tokens, text_tokens, .. } = passage;
        statement.execute(params![chunk, scope, symbol_tokens, file.path_tokens, text_tokens])?;
    }
    Ok(id)
}

fn insert_chunk(
    db: &Connection,
    place: &Place<'_>,
    (file, ordinal): (i64, usize),
    chunk: &NewPassage,
) -> rusqlite::Result<i64> {
    let mut statement = db.prepare_cached(
        "INSERT INTO chunks (org_id, corpus, file, ordinal, chunk_id, symbol, start_line, end_line, sha256, text)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    statement.insert(params![
        place.org,
        place.corpus,
        file,
        ordinal as i64,
        chunk.id,
        chunk.symbol,
        chunk.passage.start_line,
        chunk.passage.end_line,
        chunk.passage.sha256.as_bytes(),
        chunk.passage.text,
    ])
}

/// Notes what will show that the file is unchanged.
pub(super) fn renew(db: &Connection, kept: &Kept<i64>) -> rusqlite::Result<()> {
    let Some(Evidence { stat, blob }) = &kept.evidence else { return Ok(()) };
    let mut statement = db.prepare_cached(
        "UPDATE files SET size = ?2, mtime_ns = ?3, ctime_ns = ?4, inode = ?5, blob = ?6 WHERE id = ?1",
    )?;
    statement.execute(params![
        kept.id,
        stat.map(|stat| stat.size.cast_signed()),
        stat.map(|stat| stat.mtime_ns),
        stat.map(|stat| stat.ctime_ns),
        stat.map(|stat| stat.inode.cast_signed()),
        blob,
    ])?;
    Ok(())
}

/// Removes a file with everything that was made of it.
pub(super) fn remove_file(db: &Connection, corpus: i64, file: i64) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(&format!(
        "DELETE FROM fts_{corpus} WHERE rowid IN (SELECT id FROM chunks WHERE file = ?1)"
    ))?;
    statement.execute([file])?;
    db.prepare_cached("DELETE FROM chunks WHERE file = ?1")?.execute([file])?;
    db.prepare_cached("DELETE FROM files WHERE id = ?1")?.execute([file])?;
    Ok(())
}

/// Removes the files that no search can see any more, in short transactions.
pub(super) fn remove_files(db: &super::Writer, corpus: i64, files: &[i64]) -> rusqlite::Result<()> {
    for some in files.chunks(REMOVED_AT_ONCE) {
        let mut db = db.lock();
        let transaction = db.transaction()?;
        for file in some {
            remove_file(&transaction, corpus, *file)?;
        }
        transaction.commit()?;
    }
    Ok(())
}

/// Removes a corpus that was marked as removed, in short transactions.
pub(super) fn remove_corpus(db: &super::Writer, corpus: i64) -> Result<(), Fault> {
    db.lock().execute_batch(&format!(
        "DROP TABLE IF EXISTS vocab_{corpus}; DROP TABLE IF EXISTS fts_{corpus};"
    ))?;
    while remove_some(&mut db.lock(), corpus)? {}
    db.lock().execute("DELETE FROM corpora WHERE id = ?1", [corpus])?;
    Ok(())
}

/// False when there was nothing left to remove.
fn remove_some(db: &mut Connection, corpus: i64) -> Result<bool, Fault> {
    let transaction = db.transaction()?;
    let files: Vec<i64> = {
        let mut statement =
            transaction.prepare_cached("SELECT id FROM files WHERE corpus = ?1 LIMIT 500")?;
        let rows = statement.query_map([corpus], |row| row.get(0))?;
        rows.collect::<rusqlite::Result<_>>()?
    };
    for file in &files {
        transaction.prepare_cached("DELETE FROM chunks WHERE file = ?1")?.execute([file])?;
        let removed =
            transaction.prepare_cached("DELETE FROM files WHERE id = ?1")?.execute([file])?;
        // An index of the table names a row that the table does not have: it would be named for ever.
        if removed == 0 {
            return Err(Fault::Damaged);
        }
    }
    transaction.commit()?;
    Ok(!files.is_empty())
}

/// Merges what many writes have left in the full-text table into one segment, in short transactions. Else the next few
/// runs, which may be about one file each, would do it.
pub(super) fn merge(db: &super::Writer, corpus: i64) -> rusqlite::Result<()> {
    const PAGES_AT_ONCE: i64 = 256;
    const MAX_STEPS: usize = 10_000;
    for step in 0..MAX_STEPS {
        // A negative number of pages says that all segments are to become one, however few they are.
        let pages = if step == 0 { -PAGES_AT_ONCE } else { PAGES_AT_ONCE };
        let db = db.lock();
        let before = db.total_changes();
        db.prepare_cached(&format!(
            "INSERT INTO fts_{corpus} (fts_{corpus}, rank) VALUES ('merge', ?1)"
        ))?
        .execute([pages])?;
        // Less than two changes mean that there was nothing to merge.
        if db.total_changes() - before < 2 {
            break;
        }
    }
    Ok(())
}
