//! One run over a repository: stage what has changed, then let searches see all of it at once.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::params;
use skein_core::ports::IndexProgress;

use super::{
    Inner,
    corpus::{Corpus, Subject, set_error},
    ledger::Ledger,
    rows::{self, Place},
};
use crate::{
    fault::{Fault, causes},
    pipeline::{self, Batch, Input, Order, Outcome, Walked, file_system_time_ns},
    walk::{Git, SkippedCounts},
};

/// After so many new files the full-text table is merged at once.
const MANY_FILES: u64 = 1_000;

/// Runs to the end, and remembers why when it cannot.
pub(super) fn run(inner: &Inner, order: &Order) -> Result<(), Fault> {
    let subject = Subject::Repo(order.org, order.job.repo);
    // Whatever broke when the run was stopped broke because of that.
    let stopped = |fault| if order.stop.is_cancelled() { Fault::Cancelled } else { fault };
    let outcome = begin(inner, order, subject).map_err(stopped);
    match &outcome {
        // Nobody has to be told of what they asked for.
        Ok(()) | Err(Fault::Cancelled) => {}
        Err(fault) => {
            let db = inner.writer.lock();
            if let Some(corpus) = Corpus::find(&db, &subject)? {
                set_error(&db, corpus.id, Some(&causes(fault)))?;
            }
        }
    }
    outcome
}

fn begin(inner: &Inner, order: &Order, subject: Subject) -> Result<(), Fault> {
    let git = Git::at(Path::new(&order.job.root), order.stop.clone())?;
    let commit = match &order.job.commit {
        Some(commit) => Some(git.commit(commit)?),
        None => None,
    };
    sweep(inner)?;
    let corpus = Corpus::find_or_create(&mut inner.writer.lock(), &subject)?;
    let run = Run {
        inner,
        order,
        subject,
        generation: corpus.visible + 1,
        corpus: corpus.id,
        files_before: corpus.files,
    };
    run.whole(git, commit)
}

/// Ends what a removal that was cut off had begun.
fn sweep(inner: &Inner) -> Result<(), Fault> {
    let removed: Vec<i64> = {
        let db = inner.writer.lock();
        let mut statement = db.prepare("SELECT id FROM corpora WHERE is_removed = 1")?;
        let rows = statement.query_map([], |row| row.get(0))?;
        rows.collect::<rusqlite::Result<_>>()?
    };
    for corpus in removed {
        rows::remove_corpus(&inner.writer, corpus)?;
    }
    Ok(())
}

struct Run<'a> {
    inner: &'a Inner,
    order: &'a Order,
    subject: Subject,
    corpus: i64,
    /// The one that becomes visible when the run ends.
    generation: i64,
    files_before: u64,
}

/// What a run has seen so far.
#[derive(Default)]
struct Seen {
    /// Rows of files that stay or were added.
    rows: RowSet,
    files: u64,
    chunks: u64,
    left_out: u64,
    added: u64,
}

impl Run<'_> {
    fn whole(&self, git: Git, commit: Option<String>) -> Result<(), Fault> {
        let head = match &commit {
            Some(commit) => Some(commit.clone()),
            None => git.head()?,
        };
        let skipped = Arc::new(SkippedCounts::default());
        let input = Input {
            root: PathBuf::from(&self.order.job.root),
            git,
            commit,
            skipped: Arc::clone(&skipped),
            org: *self.subject.org(),
            repo: *self.order.job.repo.as_uuid().as_bytes(),
            now_ns: file_system_time_ns(&self.inner.path)?,
            stop: self.order.stop.clone(),
        };
        let seen = self.stage(&input)?;
        self.drop_unseen_staged(&seen)?;
        self.publish(&seen, head.as_deref(), &skipped)?;
        self.purge()?;
        if seen.added >= MANY_FILES {
            rows::merge(&self.inner.writer, self.corpus)?;
        }
        Ok(())
    }

    /// Writes what has changed into rows that nobody sees yet.
    fn stage(&self, input: &Input) -> Result<Seen, Fault> {
        let walked = Walked::expecting(self.files_before);
        let mut seen = Seen::default();
        let mut batch = Batch::default();
        let ledger = Ledger { readers: &self.inner.readers, corpus: self.corpus };
        pipeline::run(input, &ledger, &walked, |outcome| {
            match outcome {
                Outcome::Kept(kept) => {
                    seen.rows.insert(kept.id);
                    seen.files += 1;
                    seen.chunks += kept.chunks;
                    if kept.evidence.is_some() {
                        batch.kept.push(kept);
                    }
                }
                Outcome::New(file) => {
                    seen.files += 1;
                    seen.chunks += file.passages.len() as u64;
                    seen.added += 1;
                    batch.push(*file);
                }
                Outcome::LeftOut => seen.left_out += 1,
            }
            if batch.is_full() {
                self.write(&mut batch, &mut seen)?;
            }
            self.tell(&seen, &walked);
            if self.order.stop.is_cancelled() { Err(Fault::Cancelled) } else { Ok(()) }
        })?;
        if self.order.stop.is_cancelled() {
            return Err(Fault::Cancelled);
        }
        self.write(&mut batch, &mut seen)?;
        self.tell(&seen, &walked);
        Ok(seen)
    }

    fn tell(&self, seen: &Seen, walked: &Walked) {
        self.order.progress.send_replace(IndexProgress {
            files_done: seen.files + seen.left_out,
            files_total: walked.total(),
            chunks: seen.chunks,
        });
    }

    fn write(&self, batch: &mut Batch<i64>, seen: &mut Seen) -> Result<(), Fault> {
        let place = Place {
            corpus: self.corpus,
            org: self.subject.org(),
            generation: self.generation,
            document: None,
        };
        let mut db = self.inner.writer.lock();
        let transaction = db.transaction()?;
        for file in &batch.new {
            seen.rows.insert(rows::insert_file(&transaction, &place, file)?);
        }
        for kept in &batch.kept {
            rows::renew(&transaction, kept)?;
        }
        transaction.commit()?;
        *batch = Batch::default();
        Ok(())
    }

    /// A run that was cut off may have staged what is not so any more.
    fn drop_unseen_staged(&self, seen: &Seen) -> Result<(), Fault> {
        let staged = self.rows("SELECT id FROM files WHERE corpus = ?1 AND from_gen = ?2")?;
        let stale: Vec<i64> = staged.into_iter().filter(|id| !seen.rows.contains(*id)).collect();
        Ok(rows::remove_files(&self.inner.writer, self.corpus, &stale)?)
    }

    /// From here on searches see the new files and no longer the old ones.
    fn publish(
        &self,
        seen: &Seen,
        head: Option<&str>,
        skipped: &SkippedCounts,
    ) -> Result<(), Fault> {
        let live = self
            .rows("SELECT id FROM files WHERE corpus = ?1 AND from_gen < ?2 AND to_gen IS NULL")?;
        let gone: Vec<i64> = live.into_iter().filter(|id| !seen.rows.contains(*id)).collect();
        let staged: bool = {
            let db = self.inner.writer.lock();
            db.query_row(
                "SELECT EXISTS (SELECT 1 FROM files WHERE corpus = ?1 AND from_gen = ?2)",
                params![self.corpus, self.generation],
                |row| row.get(0),
            )?
        };
        // An index that stays the same keeps its generation, and what was computed for it.
        let is_same = gone.is_empty() && !staged && self.generation > 1;
        let visible = if is_same { self.generation - 1 } else { self.generation };
        let skipped = serde_json::to_string(&skipped.by_reason()).unwrap_or_default();
        let mut db = self.inner.writer.lock();
        let transaction = db.transaction()?;
        for file in &gone {
            transaction
                .prepare_cached("UPDATE files SET to_gen = ?2 WHERE id = ?1")?
                .execute(params![file, self.generation])?;
        }
        transaction.execute(
            "UPDATE corpora SET visible = ?2, commit_id = ?3, files = ?4, chunks = ?5, skipped = ?6, updated_at = ?7,
                                error = NULL, is_of_commit = ?8
             WHERE id = ?1",
            params![
                self.corpus,
                visible,
                head,
                seen.files.cast_signed(),
                seen.chunks.cast_signed(),
                skipped,
                self.order.job.at.as_millis(),
                self.order.job.commit.is_some(),
            ],
        )?;
        Ok(transaction.commit()?)
    }

    fn purge(&self) -> Result<(), Fault> {
        let closed = self.rows("SELECT id FROM files WHERE corpus = ?1 AND to_gen <= ?2")?;
        Ok(rows::remove_files(&self.inner.writer, self.corpus, &closed)?)
    }

    fn rows(&self, sql: &str) -> Result<Vec<i64>, Fault> {
        let db = self.inner.writer.lock();
        let mut statement = db.prepare_cached(sql)?;
        let rows = statement.query_map(params![self.corpus, self.generation], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

/// Row ids, one bit each: they are dense.
#[derive(Default)]
struct RowSet(Vec<u64>);

impl RowSet {
    fn place(id: i64) -> (usize, u64) {
        let id = id.cast_unsigned();
        (usize::try_from(id / 64).unwrap_or(usize::MAX), 1 << (id % 64))
    }

    fn insert(&mut self, id: i64) {
        let (word, bit) = Self::place(id);
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= bit;
    }

    fn contains(&self, id: i64) -> bool {
        let (word, bit) = Self::place(id);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }
}
