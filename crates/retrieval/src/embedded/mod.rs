//! The index in a SQLite file of its own.
//!
//! A run goes [`run`] → [`crate::pipeline`] (walk, read, take apart; many threads) → [`rows`] (one writer, short
//! transactions) → publish. A search goes [`search`] → full-text candidates → [`crate::rank`].

mod candidates;
mod corpus;
mod damage;
mod dense;
mod documents;
mod frequencies;
mod ledger;
mod readers;
mod rows;
mod run;
mod schema;
mod search;
mod upkeep;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use rusqlite::{Connection, params};
use skein_core::{
    model::{DocumentId, LogId, RepoId, Scope},
    ports::{
        Found, IndexDocument, IndexError, IndexJob, IndexProgress, IndexStatus, IndexWatch,
        PassageIndex, RetrievalQuery, RetrieveError, Retriever,
    },
};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

pub use self::damage::Condition;
use self::{
    corpus::{Corpus, Subject},
    dense::{Matrices, Meaning},
    frequencies::Frequencies,
    readers::Readers,
    upkeep::Unembedded,
};
use crate::{
    claims::Claims,
    embed::{EmbedError, Embedder},
    fault::Fault,
    fusion::found_by,
    pipeline::{Order, told},
};

/// Searches that run at the same time; further ones wait.
const SEARCHES: usize = 4;

/// Why an index file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the index file {} cannot be opened", path.display())]
pub struct OpenError {
    path: PathBuf,
    #[source]
    source: schema::Unusable,
}

/// Passages in one SQLite file. Nothing else may write to the file meanwhile.
#[derive(Clone)]
pub struct EmbeddedIndex {
    inner: Arc<Inner>,
    searches: Arc<Semaphore>,
    /// None finds by words only.
    embedder: Option<Arc<Embedder>>,
}

struct Inner {
    path: PathBuf,
    writer: Writer,
    readers: Readers,
    claims: Claims<Subject>,
    frequencies: Frequencies,
    matrices: Matrices,
    unembedded: Mutex<Unembedded>,
    /// Held by whoever asks the endpoint for vectors of passages.
    embedding: tokio::sync::Mutex<()>,
}

/// The one connection that writes, for one short transaction at a time.
struct Writer(Mutex<Connection>);

impl Writer {
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EmbeddedIndex {
    /// Opens the file, or makes it. A file of an older format is emptied and one that is damaged is put aside:
    /// everything in it can be made again.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let writer = schema::open_writer(path)
            .map_err(|source| OpenError { path: path.to_owned(), source })?;
        let inner = Inner {
            path: path.to_owned(),
            writer: Writer(Mutex::new(writer)),
            readers: Readers::new(path),
            claims: Claims::default(),
            frequencies: Frequencies::default(),
            matrices: Matrices::default(),
            unembedded: Mutex::new(Unembedded::Unknown),
            embedding: tokio::sync::Mutex::default(),
        };
        let searches = Arc::new(Semaphore::new(SEARCHES));
        Ok(Self { inner: Arc::new(inner), searches, embedder: None })
    }

    /// Looks for damage in the whole file, which another process may have open. Takes as long as reading it does.
    pub fn examine(path: &Path) -> Result<Condition, OpenError> {
        damage::examine(path)
            .map_err(|source| OpenError { path: path.to_owned(), source: source.into() })
    }

    /// Finds passages by their meaning too. Those that have no vector yet get one when the index catches up.
    pub fn with_embedder(self, embedder: Embedder) -> Self {
        Self { embedder: Some(Arc::new(embedder)), ..self }
    }

    /// The question's vector. Without one, words must do.
    async fn meaning(&self, query: &RetrievalQuery) -> Option<(Arc<Embedder>, Vec<f32>)> {
        let embedder = self.embedder.clone()?;
        match embedder.question(&query.text).await {
            Ok(vector) => Some((embedder, vector)),
            Err(EmbedError::Resting) => None,
            Err(error) => {
                tracing::warn!(%error, "searching by words only");
                None
            }
        }
    }

    /// Runs `work` where it may wait for the disk.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let inner = Arc::clone(&self.inner);
        let task = tokio::task::spawn_blocking(move || {
            work(&inner).inspect_err(|fault| {
                if matches!(fault, Fault::Damaged) {
                    damage::note(&inner.path);
                }
            })
        });
        task.await.unwrap_or(Err(Fault::Broken))
    }
}

impl Inner {
    fn status(&self, subject: &Subject) -> Result<Option<IndexStatus>, Fault> {
        let corpus = self.readers.take()?.snapshot(|db| Corpus::find(db, subject))?;
        Ok(corpus.map(|corpus| corpus.status(self.claims.is_claimed(subject))))
    }

    /// Invisible at once, and gone soon after.
    fn remove(&self, subject: &Subject) -> Result<(), Fault> {
        let corpus = Corpus::find(&self.writer.lock(), subject)?;
        let Some(corpus) = corpus else { return Ok(()) };
        self.writer
            .lock()
            .execute("UPDATE corpora SET is_removed = 1 WHERE id = ?1", params![corpus.id])?;
        rows::remove_corpus(&self.writer, corpus.id)
    }
}

#[async_trait]
impl Retriever for EmbeddedIndex {
    async fn search(&self, scope: &Scope, query: &RetrievalQuery) -> Result<Found, RetrieveError> {
        // Before it is this search's turn: whoever waits for the endpoint keeps nobody from the disk.
        let meaning = self.meaning(query).await;
        let lacks_meaning = self.embedder.is_some() && meaning.is_none();
        let _turn = self.searches.acquire().await.map_err(|_| Fault::Broken)?;
        let (org, query) = (scope.org, query.clone());
        let found = self.blocking(move |inner| {
            let meaning = meaning.as_ref();
            let meaning = meaning.map(|(by, vector)| Meaning { model: by.model(), vector });
            search::search(inner, org, &query, meaning.as_ref())
        });
        Ok(found_by(found.await?, lacks_meaning))
    }
}

#[async_trait]
impl PassageIndex for EmbeddedIndex {
    async fn index_repo(
        &self,
        scope: &Scope,
        job: IndexJob,
        watch: &dyn IndexWatch,
        cancel: CancellationToken,
    ) -> Result<IndexStatus, IndexError> {
        let subject = Subject::Repo(scope.org, job.repo);
        let claim = self.inner.claims.claim(subject)?;
        // A caller that stops waiting stops the run.
        let stop = cancel.child_token();
        let _stop_with_caller = stop.clone().drop_guard();
        let (progress, seen) = watch::channel(IndexProgress::default());
        let order = Order { org: scope.org, job, progress, stop };
        let run = self.blocking(move |inner| {
            // Held until the run has ended, also when nobody waits for it any more.
            let outcome = run::run(inner, &order);
            drop(claim);
            outcome.map(|()| *order.progress.borrow())
        });
        told(watch, seen, run).await?;
        lock(&self.inner.unembedded).add(subject);
        let status = self.blocking(move |inner| inner.status(&subject)).await?;
        status.ok_or_else(|| Fault::Broken.into())
    }

    async fn index_status(
        &self,
        scope: &Scope,
        repo: RepoId,
    ) -> Result<Option<IndexStatus>, IndexError> {
        let subject = Subject::Repo(scope.org, repo);
        Ok(self.blocking(move |inner| inner.status(&subject)).await?)
    }

    async fn remove_repo(&self, scope: &Scope, repo: RepoId) -> Result<(), IndexError> {
        let subject = Subject::Repo(scope.org, repo);
        let claim = self.inner.claims.claim(subject)?;
        let removed = self.blocking(move |inner| {
            let removed = inner.remove(&subject);
            drop(claim);
            removed
        });
        Ok(removed.await?)
    }

    async fn add_document(
        &self,
        scope: &Scope,
        document: IndexDocument,
    ) -> Result<u32, IndexError> {
        let org = scope.org;
        let count = self.blocking(move |inner| documents::add(inner, org, &document)).await?;
        lock(&self.inner.unembedded).add(Subject::Documents(org));
        Ok(count)
    }

    async fn document_passages(
        &self,
        scope: &Scope,
        documents: &[DocumentId],
    ) -> Result<HashMap<DocumentId, u32>, IndexError> {
        let (org, documents) = (scope.org, documents.to_vec());
        Ok(self.blocking(move |inner| documents::passages(inner, org, &documents)).await?)
    }

    async fn remove_documents(&self, scope: &Scope, log: LogId) -> Result<(), IndexError> {
        let org = scope.org;
        Ok(self.blocking(move |inner| documents::remove(inner, org, log)).await?)
    }

    async fn catch_up(&self, cancel: CancellationToken) -> Result<(), IndexError> {
        Ok(self.embed_missing(&cancel).await?)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
