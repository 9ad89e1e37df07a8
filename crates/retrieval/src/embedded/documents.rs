//! Texts that were uploaded to sessions.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};
use skein_core::{
    model::{DocumentId, LogId, OrgId, Sha256Hash},
    ports::IndexDocument,
};

use super::{
    Inner,
    corpus::{Corpus, Subject},
    rows::{self, Place},
};
use crate::{
    chunk::Chunker,
    fault::Fault,
    language::{detect, of_media_type},
    pipeline::{Evidence, Text, prepare},
};

/// In one transaction, so that a search sees the old text or the new one.
pub(super) fn add(inner: &Inner, org: OrgId, document: &IndexDocument) -> Result<u32, Fault> {
    let (log, id) = (document.log.as_uuid().as_bytes(), document.id.as_uuid().as_bytes());
    let language =
        of_media_type(&document.media_type).or_else(|| detect(&document.name, &document.text));
    let text = Text {
        path: &document.name,
        text: &document.text,
        language,
        sha256: Sha256Hash::of(document.text.as_bytes()),
        owner: [org.as_uuid().as_bytes(), id],
    };
    let file = prepare(&mut Chunker::default(), &text, Evidence::default());

    let mut db = inner.writer.lock();
    let corpus = Corpus::find_or_create(&mut db, &Subject::Documents(org))?;
    let place = Place {
        corpus: corpus.id,
        org: org.as_uuid().as_bytes(),
        generation: 0,
        document: Some((log, id)),
    };
    let transaction = db.transaction()?;
    let before = ids(
        &transaction,
        "SELECT id FROM files WHERE corpus = ?1 AND log_id = ?2 AND document_id = ?3",
        params![corpus.id, log, id],
    )?;
    for file in before {
        rows::remove_file(&transaction, corpus.id, file)?;
    }
    rows::insert_file(&transaction, &place, &file)?;
    count(&transaction, corpus.id)?;
    transaction.commit()?;
    Ok(u32::try_from(file.passages.len()).unwrap_or(u32::MAX))
}

/// How many passages there are of each of these.
pub(super) fn passages(
    inner: &Inner,
    org: OrgId,
    documents: &[DocumentId],
) -> Result<HashMap<DocumentId, u32>, Fault> {
    inner.readers.take()?.snapshot(|db| {
        let Some(corpus) = Corpus::find(db, &Subject::Documents(org))? else {
            return Ok(HashMap::new());
        };
        let mut statement =
            db.prepare_cached("SELECT chunks FROM files WHERE corpus = ?1 AND document_id = ?2")?;
        let mut found = HashMap::new();
        for document in documents {
            let id = document.as_uuid().as_bytes();
            let chunks =
                statement.query_row(params![corpus.id, id], |row| row.get(0)).optional()?;
            found.extend(chunks.map(|chunks| (*document, chunks)));
        }
        Ok(found)
    })
}

pub(super) fn remove(inner: &Inner, org: OrgId, log: LogId) -> Result<(), Fault> {
    let mut db = inner.writer.lock();
    let Some(corpus) = Corpus::find(&db, &Subject::Documents(org))? else { return Ok(()) };
    let transaction = db.transaction()?;
    let gone = ids(
        &transaction,
        "SELECT id FROM files WHERE corpus = ?1 AND log_id = ?2",
        params![corpus.id, log.as_uuid().as_bytes()],
    )?;
    for file in gone {
        rows::remove_file(&transaction, corpus.id, file)?;
    }
    count(&transaction, corpus.id)?;
    Ok(transaction.commit()?)
}

/// A new generation, because what was computed for the one before no longer holds.
fn count(db: &Connection, corpus: i64) -> rusqlite::Result<()> {
    db.execute(
        "UPDATE corpora SET visible = visible + 1,
             files = (SELECT count(*) FROM files WHERE corpus = ?1),
             chunks = (SELECT coalesce(sum(chunks), 0) FROM files WHERE corpus = ?1)
         WHERE id = ?1",
        [corpus],
    )?;
    Ok(())
}

fn ids(
    db: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
) -> rusqlite::Result<Vec<i64>> {
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map(parameters, |row| row.get(0))?;
    rows.collect()
}
