//! The index in a Qdrant server.
//!
//! One collection holds everything: passages with their words as a sparse vector and their meaning as dense ones, and
//! beside them points without vectors that say what runs know and what searches see. Qdrant has no transactions, so
//! [`run`] writes passages of the generation after the visible one, and one write of one point makes them visible;
//! [`search`] asks before and after it has looked which generation that is. The tenant is part of every filter.

mod client;
mod documents;
mod filters;
mod ledger;
mod points;
mod run;
mod search;
mod sparse;
mod upkeep;

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use reqwest::Method;
use secrecy::SecretString;
use serde_json::{Value, json};
use skein_core::{
    model::{DocumentId, LogId, OrgId, RepoId, Scope},
    ports::{
        Found, IndexDocument, IndexError, IndexJob, IndexProgress, IndexStatus, IndexWatch,
        PassageIndex, RetrievalQuery, RetrieveError, Retriever,
    },
};
use tokio::{runtime::Handle, sync::watch};
use tokio_util::sync::CancellationToken;

pub use self::client::QdrantError;
use self::{
    client::Client,
    filters::{all, of_repo},
    points::{INDEXED, Kind, RepoState, repo_id},
    sparse::WORDS,
};
use crate::{
    claims::Claims,
    embed::{EmbedError, Embedder},
    fault::Fault,
    fusion::found_by,
    pipeline::{Order, told},
};

/// Where Qdrant is, and how it is used.
#[derive(Debug, Clone)]
pub struct QdrantOptions {
    /// Of its REST interface, e.g. `http://127.0.0.1:6333`.
    pub url: String,
    /// Made when it does not exist. Nobody else may write to it.
    pub collection: String,
    pub api_key: Option<SecretString>,
    /// A file that may be made and removed: what the file system takes the time to be is read from it.
    pub clock_file: PathBuf,
    pub read_timeout: Duration,
}

impl QdrantOptions {
    /// A turn waits for its passages, so a search cannot wait long.
    pub const READ_TIMEOUT: Duration = Duration::from_secs(5);
}

/// Passages in a Qdrant server. It need not be there when this is made, nor stay there.
#[derive(Clone)]
pub struct QdrantIndex {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    clock_file: PathBuf,
    claims: Claims<(OrgId, RepoId)>,
    /// None finds by words only.
    embedder: Option<Embedder>,
    /// The dense vectors that the collection is known to have; None until it was looked at.
    vectors: Mutex<Option<BTreeSet<String>>>,
    /// Whether payloads are indexed, as far as this process knows.
    has_indexes: AtomicBool,
    /// Why passages have no vectors.
    note: Mutex<Option<String>>,
    /// Held by whoever asks the endpoint for vectors of passages.
    embedding: tokio::sync::Mutex<()>,
}

impl QdrantIndex {
    pub fn new(options: QdrantOptions) -> Result<Self, reqwest::Error> {
        Self::with(options, None)
    }

    /// Finds passages by their meaning too. Those that have no vector yet get one when the index catches up.
    pub fn with(
        options: QdrantOptions,
        embedder: Option<Embedder>,
    ) -> Result<Self, reqwest::Error> {
        let QdrantOptions { url, collection, api_key, clock_file, read_timeout } = options;
        let client = Client::new(&url, &collection, api_key, read_timeout)?;
        let inner = Inner {
            client,
            clock_file,
            claims: Claims::default(),
            embedder,
            vectors: Mutex::default(),
            has_indexes: AtomicBool::new(false),
            note: Mutex::default(),
            embedding: tokio::sync::Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Whether Qdrant answers, and how many passages and other points the collection has, if it exists.
    pub async fn probe(&self) -> Result<Option<u64>, QdrantError> {
        let described = self.inner.client.describe().await?;
        Ok(described.map(|described| described["points_count"].as_u64().unwrap_or_default()))
    }
}

impl Inner {
    /// Makes the collection and what it lacks. Somebody may have removed it since the last time.
    async fn prepare(&self) -> Result<(), QdrantError> {
        let mut described = self.client.describe().await?;
        if described.is_none() {
            let words = json!({WORDS: {"modifier": "idf"}});
            self.client.create(&json!({"vectors": {}, "sparse_vectors": words})).await?;
            self.has_indexes.store(false, Ordering::Release);
            described = self.client.describe().await?;
        }
        let described = described.unwrap_or_default();
        if !self.has_indexes.load(Ordering::Acquire) {
            self.make_indexes(&described).await?;
            self.has_indexes.store(true, Ordering::Release);
        }
        *lock(&self.vectors) = Some(vectors_of(&described));
        Ok(())
    }

    async fn make_indexes(&self, described: &Value) -> Result<(), QdrantError> {
        for (field, kind) in INDEXED {
            if described["payload_schema"].get(field).is_none() {
                let schema = match *field {
                    "org" => json!({"type": kind, "is_tenant": true}),
                    _ => json!({"type": kind}),
                };
                let body = json!({"field_name": field, "field_schema": schema});
                self.client.change(Method::PUT, "/index", &body).await?;
            }
        }
        Ok(())
    }

    async fn repo_state(&self, org: OrgId, repo: RepoId) -> Result<Option<RepoState>, QdrantError> {
        let found = self.client.retrieve::<RepoState>(&[repo_id(org, repo)]).await?;
        Ok(found.into_iter().next().map(|point| point.payload))
    }

    async fn keep_repo_state(
        &self,
        (org, repo): (OrgId, RepoId),
        state: &RepoState,
    ) -> Result<(), QdrantError> {
        self.client.upsert(&[state.point(org, repo)]).await
    }

    async fn status(&self, org: OrgId, repo: RepoId) -> Result<Option<IndexStatus>, QdrantError> {
        let state = self.repo_state(org, repo).await?.filter(|state| !state.is_removed);
        let Some(state) = state else { return Ok(None) };
        let is_busy = self.claims.is_claimed(&(org, repo));
        Ok(Some(state.status(is_busy, self.note(org, repo).await?)))
    }

    /// Invisible at once, and gone soon after.
    async fn remove_repo(&self, org: OrgId, repo: RepoId) -> Result<(), QdrantError> {
        let Some(state) = self.repo_state(org, repo).await? else { return Ok(()) };
        let removed =
            RepoState { visible: state.visible + 1, is_removed: true, ..RepoState::default() };
        self.keep_repo_state((org, repo), &removed).await?;
        self.clear(org, repo).await
    }

    /// Removes everything that runs have written.
    async fn clear(&self, org: OrgId, repo: RepoId) -> Result<(), QdrantError> {
        for kind in [Kind::Chunk, Kind::File] {
            self.client.delete(&all(of_repo(org, repo, kind))).await?;
        }
        Ok(())
    }

    /// The question's vector. Without one, words must do.
    async fn meaning(&self, query: &RetrievalQuery) -> Option<Vec<f32>> {
        match self.embedder.as_ref()?.question(&query.text).await {
            Ok(vector) => Some(vector),
            Err(EmbedError::Resting) => None,
            Err(error) => {
                tracing::warn!(%error, "searching by words only");
                None
            }
        }
    }
}

#[async_trait]
impl Retriever for QdrantIndex {
    async fn search(&self, scope: &Scope, query: &RetrievalQuery) -> Result<Found, RetrieveError> {
        let meaning = self.inner.meaning(query).await;
        let lacks_meaning = self.inner.embedder.is_some() && meaning.is_none();
        let found = self.inner.search(scope.org, query, meaning).await;
        let found = found.map_err(|error| RetrieveError::Unavailable(Box::new(error)))?;
        Ok(found_by(found, lacks_meaning))
    }
}

#[async_trait]
impl PassageIndex for QdrantIndex {
    async fn index_repo(
        &self,
        scope: &Scope,
        job: IndexJob,
        watch: &dyn IndexWatch,
        cancel: CancellationToken,
    ) -> Result<IndexStatus, IndexError> {
        let (org, repo) = (scope.org, job.repo);
        let claim = self.inner.claims.claim((org, repo))?;
        // A caller that stops waiting stops the run.
        let stop = cancel.child_token();
        let _stop_with_caller = stop.clone().drop_guard();
        let (progress, seen) = watch::channel(IndexProgress::default());
        let order = Order { org, job, progress, stop };
        let (inner, handle) = (Arc::clone(&self.inner), Handle::current());
        let run = tokio::task::spawn_blocking(move || {
            // Held until the run has ended, also when nobody waits for it any more.
            let outcome = run::run(&inner, &handle, &order);
            drop(claim);
            outcome.map(|()| *order.progress.borrow())
        });
        told(watch, seen, async { run.await.unwrap_or(Err(Fault::Broken)) }).await?;
        let status = self.inner.status(org, repo).await.map_err(Fault::from)?;
        status.ok_or_else(|| Fault::Broken.into())
    }

    async fn index_status(
        &self,
        scope: &Scope,
        repo: RepoId,
    ) -> Result<Option<IndexStatus>, IndexError> {
        Ok(self.inner.status(scope.org, repo).await.map_err(Fault::from)?)
    }

    async fn remove_repo(&self, scope: &Scope, repo: RepoId) -> Result<(), IndexError> {
        let _claim = self.inner.claims.claim((scope.org, repo))?;
        Ok(self.inner.remove_repo(scope.org, repo).await.map_err(Fault::from)?)
    }

    async fn add_document(
        &self,
        scope: &Scope,
        document: IndexDocument,
    ) -> Result<u32, IndexError> {
        Ok(self.inner.add_document(scope.org, document).await?)
    }

    async fn document_passages(
        &self,
        scope: &Scope,
        documents: &[DocumentId],
    ) -> Result<HashMap<DocumentId, u32>, IndexError> {
        let found = self.inner.document_passages(scope.org, documents).await;
        Ok(found.map_err(Fault::from)?)
    }

    async fn remove_documents(&self, scope: &Scope, log: LogId) -> Result<(), IndexError> {
        Ok(self.inner.remove_documents(scope.org, log).await.map_err(Fault::from)?)
    }

    async fn catch_up(&self, cancel: CancellationToken) -> Result<(), IndexError> {
        Ok(self.inner.embed_missing(&cancel).await.map_err(Fault::from)?)
    }
}

/// The names of the dense vectors that a collection has.
fn vectors_of(described: &Value) -> BTreeSet<String> {
    let vectors = described["config"]["params"]["vectors"].as_object();
    vectors.into_iter().flat_map(|vectors| vectors.keys().cloned()).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
