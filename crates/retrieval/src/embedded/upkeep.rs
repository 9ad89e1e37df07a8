//! Gets the vectors that passages do not have yet, beside runs and searches.

use std::{collections::HashSet, sync::atomic::Ordering};

use rusqlite::{Connection, params};
use skein_core::model::{OrgId, RepoId};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    EmbeddedIndex, Inner,
    corpus::{Corpus, Subject, set_note},
    dense::packed_length,
    lock,
};
use crate::{
    embed::{Embedder, HARMLESS, packed, refused_note},
    fault::{Fault, causes},
};

/// Which corpora may have passages without a vector.
pub(super) enum Unembedded {
    /// Nobody has looked yet.
    Unknown,
    Known(HashSet<Subject>),
}

impl Unembedded {
    pub(super) fn add(&mut self, subject: Subject) {
        if let Self::Known(subjects) = self {
            subjects.insert(subject);
        }
    }
}

/// A passage that has no vector yet.
struct Pending {
    row: i64,
    sha256: [u8; 32],
    text: String,
}

/// How far it came.
enum Progress {
    Whole,
    /// The endpoint cannot be used now; with what people are told.
    Missing(String),
}

impl EmbeddedIndex {
    /// Returns when no passage is without a vector, or when those that are cannot get one now.
    pub(super) async fn embed_missing(&self, stop: &CancellationToken) -> Result<(), Fault> {
        let Some(embedder) = self.embedder.clone() else { return Ok(()) };
        // One at a time: the second would send the same texts.
        let _turn = self.inner.embedding.lock().await;
        for subject in self.take_unembedded().await? {
            let progress = match stop.is_cancelled() {
                true => Ok(Progress::Missing("embeddings are missing".to_owned())),
                false => self.embed_subject(&embedder, subject, stop).await,
            };
            if !matches!(progress, Ok(Progress::Whole)) {
                lock(&self.inner.unembedded).add(subject);
            }
            let (model, progress) = (embedder.model().to_owned(), progress?);
            self.blocking(move |inner| finish(inner, &subject, &model, progress)).await?;
        }
        Ok(())
    }

    /// The first time, all of them: whatever model they were embedded by before.
    async fn take_unembedded(&self) -> Result<HashSet<Subject>, Fault> {
        let known = {
            let mut unembedded = lock(&self.inner.unembedded);
            match std::mem::replace(&mut *unembedded, Unembedded::Known(HashSet::new())) {
                Unembedded::Known(subjects) => return Ok(subjects),
                Unembedded::Unknown => self.blocking(|inner| {
                    forget_unused(inner)?;
                    every_subject(inner)
                }),
            }
        };
        known.await.inspect_err(|_| *lock(&self.inner.unembedded) = Unembedded::Unknown)
    }

    async fn embed_subject(
        &self,
        embedder: &Embedder,
        subject: Subject,
        stop: &CancellationToken,
    ) -> Result<Progress, Fault> {
        let (mut after, mut is_asked) = (0, embedder.dimensions().is_some());
        loop {
            let (model, batch) = (embedder.model().to_owned(), embedder.batch());
            let dimensions = embedder.dimensions();
            let pending = self.blocking(move |inner| {
                pending(inner, &subject, (&model, dimensions), (after, batch))
            });
            let pending = pending.await?;
            let texts: Vec<&str> = match pending.last() {
                Some(last) => {
                    after = last.row;
                    pending.iter().map(|pending| pending.text.as_str()).collect()
                }
                // There are vectors; whether they are as long as the model's today is not known yet.
                None if !is_asked => vec![HARMLESS],
                None => return Ok(Progress::Whole),
            };
            let embedded = tokio::select! {
                embedded = embedder.embed_each(&texts) => embedded,
                () = stop.cancelled() => return Ok(Progress::Missing("embeddings are missing".to_owned())),
            };
            let vectors = match embedded {
                Ok(vectors) => vectors,
                Err(error) => {
                    let note = format!("embeddings are missing: {}", causes(&error));
                    return Ok(Progress::Missing(note));
                }
            };
            if !is_asked {
                // From the beginning, with what is known now.
                (is_asked, after) = (true, 0);
            }
            let model = embedder.model().to_owned();
            self.blocking(move |inner| keep(inner, &subject, &model, (&pending, &vectors))).await?;
        }
    }
}

fn every_subject(inner: &Inner) -> Result<HashSet<Subject>, Fault> {
    inner.readers.take()?.snapshot(|db| {
        let mut statement =
            db.prepare_cached("SELECT org_id, kind, subject FROM corpora WHERE is_removed = 0")?;
        let rows = statement.query_map([], |row| {
            let org = OrgId::from_uuid(Uuid::from_bytes(row.get(0)?));
            Ok(match row.get_ref(1)?.as_str()? {
                "repo" => Subject::Repo(org, RepoId::from_uuid(Uuid::from_bytes(row.get(2)?))),
                _ => Subject::Documents(org),
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    })
}

/// Vectors are kept after their passages, because texts come back; but not for ever.
fn forget_unused(inner: &Inner) -> Result<(), Fault> {
    let db = inner.writer.lock();
    db.execute("DELETE FROM embeddings WHERE sha256 NOT IN (SELECT sha256 FROM chunks)", [])?;
    Ok(())
}

fn pending(
    inner: &Inner,
    subject: &Subject,
    (model, dimensions): (&str, Option<usize>),
    (after, count): (i64, usize),
) -> Result<Vec<Pending>, Fault> {
    inner.readers.take()?.snapshot(|db| {
        let Some(corpus) = Corpus::find(db, subject)? else { return Ok(Vec::new()) };
        let mut statement = db.prepare_cached(
            "SELECT c.id, c.sha256, c.text FROM chunks c
             WHERE c.corpus = ?1 AND c.id > ?2 AND NOT EXISTS (
                 SELECT 1 FROM embeddings e
                 WHERE e.org_id = ?3 AND e.model = ?4 AND e.sha256 = c.sha256
                   AND length(e.vector) IN (0, ifnull(?6, length(e.vector))))
             ORDER BY c.id LIMIT ?5",
        )?;
        let length = dimensions.map(packed_length);
        let parameters = params![corpus.id, after, subject.org(), model, count as i64, length];
        let rows = statement.query_map(parameters, |row| {
            Ok(Pending { row: row.get(0)?, sha256: row.get(1)?, text: row.get(2)? })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    })
}

/// A text that was refused is kept with an empty vector, so that it is not sent again.
fn keep(
    inner: &Inner,
    subject: &Subject,
    model: &str,
    (pending, vectors): (&[Pending], &[Option<Vec<f32>>]),
) -> Result<(), Fault> {
    let mut db = inner.writer.lock();
    let transaction = db.transaction()?;
    for (pending, vector) in pending.iter().zip(vectors) {
        transaction
            .prepare_cached(
                "INSERT OR REPLACE INTO embeddings (org_id, model, sha256, vector) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![
                subject.org(),
                model,
                pending.sha256,
                vector.as_deref().map(packed).unwrap_or_default()
            ])?;
    }
    transaction.commit()?;
    inner.matrices.written.fetch_add(1, Ordering::AcqRel);
    Ok(())
}

fn finish(inner: &Inner, subject: &Subject, model: &str, progress: Progress) -> Result<(), Fault> {
    let db = inner.writer.lock();
    let Some(corpus) = Corpus::find(&db, subject)? else { return Ok(()) };
    let note = match progress {
        Progress::Missing(note) => Some(note),
        Progress::Whole => {
            // Vectors of another model are of no use any more.
            db.execute(
                "DELETE FROM embeddings WHERE org_id = ?1 AND model <> ?2",
                params![subject.org(), model],
            )?;
            refused_note(refused(&db, &corpus, subject, model)?)
        }
    };
    if corpus.note == note {
        return Ok(());
    }
    if let Some(note) = &note {
        tracing::warn!(note, "passages are found by their words only");
    }
    Ok(set_note(&db, corpus.id, note.as_deref())?)
}

fn refused(
    db: &Connection,
    corpus: &Corpus,
    subject: &Subject,
    model: &str,
) -> rusqlite::Result<u64> {
    let count: i64 = db.query_row(
        "SELECT count(*) FROM chunks c
         JOIN embeddings e ON e.org_id = c.org_id AND e.model = ?3 AND e.sha256 = c.sha256
         WHERE c.corpus = ?1 AND c.org_id = ?2 AND length(e.vector) = 0",
        params![corpus.id, subject.org(), model],
        |row| row.get(0),
    )?;
    Ok(count.cast_unsigned())
}
