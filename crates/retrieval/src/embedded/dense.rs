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
    Inner,
    corpus::Corpus,
    search::{Hit, Search, parts, read},
};
use crate::{embed::Matrix, fault::Fault};

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
    pub(super) written: AtomicU64,
}

/// The corpus's generation, the vectors written so far, and how long a vector is.
type State = (i64, u64, usize);

impl Matrices {
    fn lock(&self) -> MutexGuard<'_, HashMap<i64, (State, Arc<Matrix>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(
        &self,
        db: &Connection,
        corpus: &Corpus,
        org: OrgId,
        meaning: &Meaning<'_>,
    ) -> rusqlite::Result<Arc<Matrix>> {
        let written = self.written.load(Ordering::Acquire);
        let state = (corpus.visible, written, meaning.vector.len());
        if let Some((known, matrix)) = self.lock().get(&corpus.id)
            && *known == state
        {
            return Ok(Arc::clone(matrix));
        }
        let matrix = Arc::new(load(db, corpus, org, meaning)?);
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

/// Vectors of another length are of another model by the same name.
fn load(
    db: &Connection,
    corpus: &Corpus,
    org: OrgId,
    meaning: &Meaning<'_>,
) -> rusqlite::Result<Matrix> {
    let mut matrix = Matrix::default();
    let mut statement = db.prepare_cached(
        "SELECT c.id, e.vector FROM chunks c
         JOIN embeddings e ON e.org_id = c.org_id AND e.model = ?3 AND e.sha256 = c.sha256
         WHERE c.corpus = ?1 AND c.org_id = ?2 AND length(e.vector) = ?4",
    )?;
    let length = packed_length(meaning.vector.len());
    let org = org.as_uuid().as_bytes();
    let mut rows = statement.query(params![corpus.id, org, meaning.model, length])?;
    while let Some(row) = rows.next()? {
        matrix.push(row.get(0)?, row.get_ref(1)?.as_blob()?);
    }
    Ok(matrix)
}

/// What a packed vector takes.
pub(super) fn packed_length(dimensions: usize) -> i64 {
    dimensions as i64 + 4
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
        let matrix = inner.matrices.of(db, &corpus, search.org, meaning)?;
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
