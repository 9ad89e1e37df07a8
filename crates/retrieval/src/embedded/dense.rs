//! Finds passages by what they mean, where there are vectors.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rusqlite::{Connection, params};
use skein_core::model::OrgId;

use super::{
    EmbeddedIndex, Inner,
    corpus::{Corpus, Subject, set_note},
    fault::Fault,
    search::{Hit, Search, parts, read},
};
use crate::embed::{Embedder, Matrix, packed};
use tokio_util::sync::CancellationToken;

/// What matrices may take in memory together.
const MAX_KEPT_BYTES: usize = 256 * 1024 * 1024;

/// Passages that are compared by their meaning, and those that are looked up to find them.
const WANTED: usize = 100;
const LOOKED_UP: usize = 1_000;

/// Matrices that were loaded, each for one state of its corpus.
#[derive(Default)]
pub(super) struct Matrices {
    kept: Mutex<HashMap<i64, (State, Arc<Matrix>)>>,
    /// Grows with every vector that is written.
    written: AtomicU64,
}

type State = (i64, u64);

impl Matrices {
    fn lock(&self) -> MutexGuard<'_, HashMap<i64, (State, Arc<Matrix>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(
        &self,
        db: &Connection,
        corpus: &Corpus,
        org: OrgId,
        model: &str,
    ) -> rusqlite::Result<Arc<Matrix>> {
        let state = (corpus.visible, self.written.load(Ordering::Acquire));
        if let Some((known, matrix)) = self.lock().get(&corpus.id)
            && *known == state
        {
            return Ok(Arc::clone(matrix));
        }
        let matrix = Arc::new(load(db, corpus, org, model)?);
        let mut kept = self.lock();
        kept.remove(&corpus.id);
        let others: usize = kept.values().map(|(_, matrix)| matrix.bytes()).sum();
        if others + matrix.bytes() > MAX_KEPT_BYTES {
            kept.clear();
        }
        if matrix.bytes() <= MAX_KEPT_BYTES {
            kept.insert(corpus.id, (state, Arc::clone(&matrix)));
        }
        Ok(matrix)
    }
}

fn load(db: &Connection, corpus: &Corpus, org: OrgId, model: &str) -> rusqlite::Result<Matrix> {
    let mut matrix = Matrix::default();
    let mut statement = db.prepare_cached(
        "SELECT c.id, e.vector FROM chunks c
         JOIN embeddings e ON e.org_id = c.org_id AND e.model = ?3 AND e.sha256 = c.sha256
         WHERE c.corpus = ?1 AND c.org_id = ?2",
    )?;
    let mut rows = statement.query(params![corpus.id, org.as_uuid().as_bytes(), model])?;
    while let Some(row) = rows.next()? {
        matrix.push(row.get(0)?, row.get_ref(1)?.as_blob()?);
    }
    Ok(matrix)
}

/// A question's vector, and the model that it is of.
pub(super) struct Meaning<'a> {
    pub model: &'a str,
    pub vector: &'a [f32],
}

/// Passages by their meaning, the best first.
pub(super) fn dense(
    inner: &Inner,
    db: &Connection,
    search: &Search<'_>,
    meaning: &Meaning<'_>,
) -> Result<Vec<Hit>, Fault> {
    let mut hits: Vec<Hit> = Vec::new();
    for (subject, part) in parts(search) {
        let Some(corpus) = Corpus::find(db, &subject)? else { continue };
        let matrix = inner.matrices.of(db, &corpus, search.org, meaning.model)?;
        let mut found = 0;
        for (row, likeness) in matrix.nearest(meaning.vector, LOOKED_UP) {
            if let Some(mut hit) = read(db, search, (&corpus, part), row)? {
                hit.chunk.score = f64::from(likeness);
                hits.push(hit);
                found += 1;
            }
            if found >= WANTED {
                break;
            }
        }
    }
    super::search::sort(&mut hits);
    Ok(hits)
}

/// A passage that has no vector yet.
struct Pending {
    row: i64,
    sha256: [u8; 32],
    text: String,
}

impl EmbeddedIndex {
    /// Gets vectors for the passages that have none. What cannot be had now is left to the next time, with a note.
    pub(super) async fn embed_missing(
        &self,
        subject: Subject,
        stop: &CancellationToken,
    ) -> Result<(), Fault> {
        let Some(embedder) = self.embedder.clone() else { return Ok(()) };
        let mut after = 0;
        let note = loop {
            let (model, batch) = (embedder.model().to_owned(), embedder.batch());
            let pending = self
                .blocking(move |inner| pending(inner, &subject, &model, (after, batch)))
                .await?;
            let Some(last) = pending.last() else { break None };
            after = last.row;
            if stop.is_cancelled() {
                break Some("embeddings are missing: the run was stopped".to_owned());
            }
            if let Err(error) = self.embed(&embedder, subject, pending).await? {
                tracing::warn!(%error, "passages are found by their words only");
                break Some(format!("embeddings are missing: {error}"));
            }
        };
        let model = embedder.model().to_owned();
        self.blocking(move |inner| finish(inner, &subject, &model, note.as_deref())).await
    }

    /// The inner error is the endpoint's.
    async fn embed(
        &self,
        embedder: &Embedder,
        subject: Subject,
        pending: Vec<Pending>,
    ) -> Result<Result<(), crate::embed::EmbedError>, Fault> {
        let texts: Vec<&str> = pending.iter().map(|pending| pending.text.as_str()).collect();
        let vectors = match embedder.embed(&texts).await {
            Ok(vectors) => vectors,
            Err(error) => return Ok(Err(error)),
        };
        let model = embedder.model().to_owned();
        self.blocking(move |inner| {
            let mut db = inner.writer.lock();
            let transaction = db.transaction()?;
            for (pending, vector) in pending.iter().zip(vectors) {
                transaction
                    .prepare_cached(
                        "INSERT OR REPLACE INTO embeddings (org_id, model, sha256, vector) VALUES (?1, ?2, ?3, ?4)",
                    )?
                    .execute(params![subject.org(), model, pending.sha256, packed(&vector)])?;
            }
            transaction.commit()?;
            inner.matrices.written.fetch_add(1, Ordering::AcqRel);
            Ok(Ok(()))
        })
        .await
    }
}

fn pending(
    inner: &Inner,
    subject: &Subject,
    model: &str,
    (after, count): (i64, usize),
) -> Result<Vec<Pending>, Fault> {
    inner.readers.take()?.snapshot(|db| {
        let Some(corpus) = Corpus::find(db, subject)? else { return Ok(Vec::new()) };
        let mut statement = db.prepare_cached(
            "SELECT c.id, c.sha256, c.text FROM chunks c
             WHERE c.corpus = ?1 AND c.id > ?2 AND NOT EXISTS (
                 SELECT 1 FROM embeddings e WHERE e.org_id = ?3 AND e.model = ?4 AND e.sha256 = c.sha256)
             ORDER BY c.id LIMIT ?5",
        )?;
        let parameters = params![corpus.id, after, subject.org(), model, count as i64];
        let rows = statement.query_map(parameters, |row| {
            Ok(Pending { row: row.get(0)?, sha256: row.get(1)?, text: row.get(2)? })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    })
}

/// Vectors of another model are of no use any more.
fn finish(inner: &Inner, subject: &Subject, model: &str, note: Option<&str>) -> Result<(), Fault> {
    let db = inner.writer.lock();
    if note.is_none() {
        db.execute(
            "DELETE FROM embeddings WHERE org_id = ?1 AND model <> ?2",
            params![subject.org(), model],
        )?;
    }
    match Corpus::find(&db, subject)? {
        Some(corpus) => Ok(set_note(&db, corpus.id, note)?),
        None => Ok(()),
    }
}
