//! The use cases of retrieval: repositories are indexed and searched, documents are added to sessions.

mod runs;

use std::{collections::HashMap, sync::Arc, time::Duration};

use runs::{Request, Run, Runs};
use serde_json::json;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, instrument, warn};

use crate::{
    Error,
    model::{Document, DocumentId, PayloadId, Repo, RepoId, Scope, SessionId},
    payloads::{self, Draft},
    platform::{Created, IdempotencyKey, Platform, RACE_ATTEMPTS},
    policy::{
        access::{self, Action},
        text::{check_optional, check_text},
    },
    ports::{
        AuditEntry, ChangeSet, Chunk, IndexDocument, IndexError, IndexJob, IndexProgress,
        IndexState, IndexStatus, PassageIndex, Resource, ResourceKind, RetrievalQuery,
        RetrieveError, Write,
    },
    registry::check_work_tree,
};

/// A document longer than this belongs into a repository.
const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// How long what could not be done waits for the next attempt.
const UPKEEP_EVERY: Duration = Duration::from_secs(60);

/// Keeps indexes up to date, and looks things up in them.
#[derive(Clone)]
pub struct Indexing {
    platform: Arc<Platform>,
    index: Arc<dyn PassageIndex>,
    runs: Arc<Runs>,
    /// Every run is owned here, so that a stop can wait for it.
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Where a repository's index stands, with the run that goes on, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoIndex {
    pub status: IndexStatus,
    pub progress: Option<IndexProgress>,
}

/// What is looked for in a repository.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Search {
    pub text: String,
    pub paths: Vec<String>,
    pub language: Option<String>,
    pub limit: u32,
}

/// A text for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDocument {
    pub name: String,
    pub media_type: Option<String>,
    pub text: String,
}

impl Indexing {
    pub fn new(platform: Arc<Platform>, index: Arc<dyn PassageIndex>) -> Self {
        let (runs, tasks) = (Arc::default(), TaskTracker::new());
        Self { platform, index, runs, tasks, stop: CancellationToken::new() }
    }

    /// Sets a run going; when one goes on already, after it. With a commit that commit's tree, else the work tree as it
    /// is.
    #[instrument(skip_all, fields(repo.id = %repo))]
    pub async fn start(
        &self,
        scope: &Scope,
        repo: RepoId,
        commit: Option<String>,
    ) -> Result<RepoIndex, Error> {
        access::check_administer(scope, "indexing a repository")?;
        check_optional("commit", commit.as_deref(), self.platform.limits.field_bytes)?;
        if commit.as_deref().is_some_and(|name| !is_commit_name(name)) {
            let reason = "must be the hexadecimal name of a commit".to_owned();
            return Err(Error::Invalid { field: "commit", reason });
        }
        let repo = self.repo(scope, repo).await?;
        let root = check_work_tree(&self.platform, scope, &repo.path).await?;
        let job = IndexJob { repo: repo.id, root, commit, at: self.platform.now() };
        let request = Request { scope: scope.clone(), job };
        if let Some(run) = self.runs.enter(&request, &self.stop) {
            self.spawn(request, run);
        }
        match self.status(scope, repo.id).await {
            // The run has begun all the same, and its outcome will tell.
            Err(Error::IndexUnavailable(_)) => {
                let status = IndexStatus { state: IndexState::Indexing, ..never_indexed() };
                Ok(RepoIndex { status, progress: self.runs.progress((scope.org, repo.id)) })
            }
            status => status,
        }
    }

    #[instrument(skip_all, fields(repo.id = %repo))]
    pub async fn status(&self, scope: &Scope, repo: RepoId) -> Result<RepoIndex, Error> {
        let repo = self.repo(scope, repo).await?.id;
        // Before the stored status is read, so that a run which ends now is not seen as neither.
        let (progress, failure) =
            (self.runs.progress((scope.org, repo)), self.runs.failure((scope.org, repo)));
        let stored = self.index.index_status(scope, repo).await?;
        let mut status = stored.unwrap_or_else(never_indexed);
        if progress.is_some() {
            status.state = IndexState::Indexing;
        } else if status.state == IndexState::Indexing {
            // What the process that ran it left behind.
            status.state = IndexState::Failed;
            status.error = Some("the run was cut off; start it again".to_owned());
        } else if status.state != IndexState::Failed && failure.is_some() {
            (status.state, status.error) = (IndexState::Failed, failure);
        }
        Ok(RepoIndex { status, progress })
    }

    /// The best passages first.
    #[instrument(skip_all, fields(repo.id = %repo))]
    pub async fn search(
        &self,
        scope: &Scope,
        repo: RepoId,
        search: Search,
    ) -> Result<Vec<Chunk>, Error> {
        let repo = self.repo(scope, repo).await?;
        check_text("q", &search.text, self.platform.limits.field_bytes)?;
        let query = RetrievalQuery {
            text: search.text,
            repo: Some(repo.id),
            documents: Vec::new(),
            paths: search.paths,
            language: search.language,
            collection: None,
            limit: search.limit,
        };
        Ok(self.index.search(scope, &query).await?.chunks)
    }

    /// Forgets what the index holds of a repository, and ends a run of it; the repository stays registered.
    #[instrument(skip_all, fields(repo.id = %repo))]
    pub async fn remove(&self, scope: &Scope, repo: RepoId) -> Result<(), Error> {
        access::check_administer(scope, "removing an index")?;
        let repo = self.repo(scope, repo).await?.id;
        let key = (scope.org, repo);
        let removal = self.runs.stop(key, &self.stop).await;
        let removed = self.index.remove_repo(scope, repo).await;
        if let Some((request, run)) = self.runs.follow(key, &removal, &self.stop) {
            self.spawn(request, run);
        }
        removed?;
        self.runs.failed(key, None);
        self.audit(scope, "repo.index_removed", repo).await
    }

    /// Adds a text to a session: from now on its turns, and those of its forks, find it.
    #[instrument(skip_all, fields(session.id = %session))]
    pub async fn add_document(
        &self,
        scope: &Scope,
        session: SessionId,
        new: NewDocument,
        key: Option<&IdempotencyKey>,
    ) -> Result<Created<(Document, u32)>, Error> {
        let session = self.platform.session_for(scope, session, Action::RunTurn).await?.session;
        let state = session.state.name();
        if state.is_final() && self.platform.find_replay(scope, key).await?.is_none() {
            return Err(Error::SessionNotActive { state, wanted: "take documents" });
        }
        let log = session.log;
        self.check_document(&new)?;
        let document = Document {
            id: DocumentId::from_uuid(self.platform.new_id()),
            log,
            name: new.name,
            media_type: new.media_type.unwrap_or_else(|| "text/plain".to_owned()),
            text: PayloadId::from_uuid(self.platform.new_id()),
            size_bytes: new.text.len() as u64,
            created_by: scope.user,
            created_at: self.platform.now(),
        };
        let stored = self.keep_document(scope, (document, &new.text), key).await?;
        let known = match stored.replayed {
            true => self.index.document_passages(scope, &[stored.value.id]).await?,
            false => HashMap::new(),
        };
        let chunks = match known.get(&stored.value.id) {
            Some(chunks) => *chunks,
            None => self.index_document(scope, &stored.value, new.text).await,
        };
        let indexing = self.clone();
        self.tasks.spawn(async move { indexing.catch_up().await });
        Ok(Created { value: (stored.value, chunks), replayed: stored.replayed })
    }

    /// What is durable is found sooner or later: the next search looks whether it is in the index.
    async fn index_document(&self, scope: &Scope, document: &Document, text: String) -> u32 {
        let added = self.index.add_document(scope, to_index(document, text)).await;
        added.unwrap_or_else(|error| {
            warn!(error = causes(&error), "a document is kept, but cannot be indexed now");
            self.platform.retriever.recheck_documents(scope, document.log);
            0
        })
    }

    pub async fn list_documents(
        &self,
        scope: &Scope,
        session: SessionId,
        after: Option<DocumentId>,
        limit: u32,
    ) -> Result<Vec<Document>, Error> {
        self.platform.session_for(scope, session, Action::Read).await?;
        let logs = self.platform.store.logs_of(scope, session).await?;
        Ok(self.platform.store.list_documents(scope, &logs, after, limit).await?)
    }

    /// Keeps the index whole beside what callers ask for. Goes on until it is dropped.
    pub async fn keep_up(&self) {
        let mut due = tokio::time::interval(UPKEEP_EVERY);
        due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            due.tick().await;
            self.catch_up().await;
        }
    }

    /// Lets what goes on come to its end; nothing new may be begun.
    pub async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Ends the runs; what they have not finished is done by the next ones.
    pub async fn close(&self) {
        self.stop.cancel();
        self.finish().await;
    }

    async fn catch_up(&self) {
        match self.index.catch_up(self.stop.clone()).await {
            Ok(()) | Err(IndexError::Cancelled) => {}
            Err(error) => warn!(error = causes(&error), "the index could not catch up"),
        }
    }

    /// Runs are done one after the other for as long as there are any.
    fn spawn(&self, request: Request, run: Arc<Run>) {
        let indexing = self.clone();
        self.tasks.spawn(async move {
            let (mut request, mut run) = (request, run);
            loop {
                let Request { scope, job } = request;
                let key = (scope.org, job.repo);
                indexing.run(&scope, job, &run).await;
                match indexing.runs.follow(key, &run, &indexing.stop) {
                    Some(next) => (request, run) = next,
                    None => break,
                }
            }
            indexing.catch_up().await;
        });
    }

    async fn run(&self, scope: &Scope, job: IndexJob, run: &Run) {
        let repo = job.repo;
        match self.index.index_repo(scope, job, run, run.stop.clone()).await {
            Ok(status) => {
                self.runs.failed((scope.org, repo), None);
                debug!(repo.id = %repo, files = status.files, chunks = status.chunks, "indexed");
                if let Err(error) = self.audit(scope, "repo.indexed", repo).await {
                    warn!(%error, "an index run could not be audited");
                }
            }
            Err(IndexError::Cancelled) => {}
            Err(error) => {
                let why = causes(&error);
                warn!(repo.id = %repo, error = why, "a repository could not be indexed");
                self.runs.failed((scope.org, repo), Some(why));
            }
        }
    }

    /// Durable first: what the index holds can be made again from it.
    async fn keep_document(
        &self,
        scope: &Scope,
        (document, text): (Document, &str),
        key: Option<&IdempotencyKey>,
    ) -> Result<Created<Document>, Error> {
        for _ in 0..RACE_ATTEMPTS {
            if let Some(resource) = self.platform.find_replay(scope, key).await? {
                let id = DocumentId::from_uuid(resource.id);
                let found = self.platform.store.find_document(scope, id).await?;
                let value = found.ok_or(Error::NotFound { entity: "document" })?;
                return Ok(Created { value, replayed: true });
            }
            let draft = Draft::text(document.text, document.log, text.to_owned());
            let payload = payloads::stage(&self.platform, scope, draft).await?;
            let resource = Resource { kind: ResourceKind::Document, id: *document.id.as_uuid() };
            let changes = ChangeSet {
                writes: vec![
                    Write::PutPayload(payload),
                    Write::CreateDocument(Box::new(document.clone())),
                ],
                audit: vec![AuditEntry {
                    at: document.created_at,
                    action: "document.created",
                    target: format!("document/{}", document.id),
                    detail: json!({"name": document.name, "size": document.size_bytes}),
                }],
                idempotency: self.platform.idempotency_record(key, resource),
                ..ChangeSet::default()
            };
            match self.platform.commit(scope, changes).await {
                Ok(_) => return Ok(Created { value: document, replayed: false }),
                Err(error) if error.is_lost_race() => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::NotFound { entity: "document" })
    }

    fn check_document(&self, new: &NewDocument) -> Result<(), Error> {
        let max = self.platform.limits.field_bytes;
        check_text("name", &new.name, max)?;
        if new.name.trim().is_empty() {
            return Err(Error::Invalid { field: "name", reason: "must not be empty".to_owned() });
        }
        check_optional("mediaType", new.media_type.as_deref(), max)?;
        if new.media_type.as_deref().is_some_and(|media_type| !is_text(media_type)) {
            let reason =
                "must be a type of text, e.g. text/markdown or application/json".to_owned();
            return Err(Error::Invalid { field: "mediaType", reason });
        }
        let (size, limit) = (new.text.len() as u64, MAX_DOCUMENT_BYTES as u64);
        if size > limit {
            return Err(Error::TooLarge { what: "content", size, limit });
        }
        check_text("content", &new.text, MAX_DOCUMENT_BYTES)
    }

    async fn repo(&self, scope: &Scope, repo: RepoId) -> Result<Repo, Error> {
        access::check_not_bound(scope, "reading repositories")?;
        let found = self.platform.store.find_repo(scope, repo).await?;
        found.ok_or(Error::NotFound { entity: "repository" })
    }

    async fn audit(&self, scope: &Scope, action: &'static str, repo: RepoId) -> Result<(), Error> {
        let target = format!("{}/{repo}", ResourceKind::Repo);
        let entry = AuditEntry { at: self.platform.now(), action, target, detail: json!({}) };
        let changes = ChangeSet { audit: vec![entry], ..ChangeSet::default() };
        self.platform.commit(scope, changes).await.map(drop)
    }
}

/// A document as the index takes it.
pub(crate) fn to_index(document: &Document, text: String) -> IndexDocument {
    IndexDocument {
        id: document.id,
        log: document.log,
        name: document.name.clone(),
        media_type: document.media_type.clone(),
        text,
    }
}

/// Types whose content is text that people write.
fn is_text(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let Some((kind, name)) = essence.split_once('/') else { return false };
    let words = ["json", "yaml", "xml", "sql", "toml", "graphql", "javascript", "typescript"];
    let last = name.rsplit(['+', '-', '.']).next().unwrap_or_default();
    (kind == "text" && !name.is_empty()) || (kind == "application" && words.contains(&last))
}

fn is_commit_name(name: &str) -> bool {
    (4..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn never_indexed() -> IndexStatus {
    IndexStatus {
        state: IndexState::Idle,
        commit: None,
        files: 0,
        chunks: 0,
        skipped: Default::default(),
        updated_at: None,
        error: None,
    }
}

/// An error with what is behind it.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

impl From<IndexError> for Error {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::NotARepository(path) => Self::NotARepository { path },
            IndexError::UnknownCommit(commit) => {
                Self::UnknownReference { field: "commit", value: commit }
            }
            error @ (IndexError::Busy | IndexError::Cancelled | IndexError::Unavailable(_)) => {
                Self::IndexUnavailable(Box::new(error))
            }
        }
    }
}

impl From<RetrieveError> for Error {
    fn from(error: RetrieveError) -> Self {
        Self::IndexUnavailable(Box::new(error))
    }
}
