//! Searches that see the documents of a session, also when the index has lost them.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use tracing::{info, warn};

use crate::{
    Error,
    indexing::to_index,
    model::{Document, LogId, OrgId, Scope},
    ports::{Found, PassageIndex, RetrievalQuery, RetrieveError, Retriever, Storage},
};

/// Documents that are looked at together.
const PAGE: u32 = 200;

/// Logs that are remembered as whole.
const MAX_KEPT: usize = 100_000;

/// Looks in the index. What is durable and not in it is put into it first: the file may have been lost or be of another
/// format, or a crash may have come between the two.
pub struct DocumentedIndex {
    index: Arc<dyn PassageIndex>,
    store: Arc<dyn Storage>,
    /// Logs whose documents the index was seen to have.
    whole: Mutex<HashSet<(OrgId, LogId)>>,
}

impl DocumentedIndex {
    pub fn new(index: Arc<dyn PassageIndex>, store: Arc<dyn Storage>) -> Self {
        Self { index, store, whole: Mutex::default() }
    }

    async fn make_whole(&self, scope: &Scope, log: LogId) -> Result<(), Error> {
        let key = (scope.org, log);
        if self.lock().contains(&key) {
            return Ok(());
        }
        let mut after = None;
        loop {
            let page = self.store.list_documents(scope, &[log], after, PAGE).await?;
            self.add_missing(scope, &page).await?;
            match page.last() {
                Some(last) if page.len() == PAGE as usize => after = Some(last.id),
                _ => break,
            }
        }
        let mut whole = self.lock();
        if whole.len() >= MAX_KEPT {
            whole.clear();
        }
        whole.insert(key);
        Ok(())
    }

    async fn add_missing(&self, scope: &Scope, documents: &[Document]) -> Result<(), Error> {
        if documents.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = documents.iter().map(|document| document.id).collect();
        let known = self.index.document_passages(scope, &ids).await?;
        for document in documents.iter().filter(|document| !known.contains_key(&document.id)) {
            let text = self.store.payload_body(scope, document.text).await?;
            let text = String::from_utf8_lossy(&text).into_owned();
            self.index.add_document(scope, to_index(document, text)).await?;
            info!(document.id = %document.id, "a document was indexed again");
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<(OrgId, LogId)>> {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Retriever for DocumentedIndex {
    async fn search(&self, scope: &Scope, query: &RetrievalQuery) -> Result<Found, RetrieveError> {
        let mut missing = None;
        for log in &query.documents {
            if let Err(error) = self.make_whole(scope, *log).await {
                // What is there can be found all the same.
                warn!(%error, "documents may be missing from the index");
                missing =
                    Some("documents of this session may be missing: they cannot be indexed now");
            }
        }
        let mut found = self.index.search(scope, query).await?;
        found.notes.extend(missing.map(str::to_owned));
        Ok(found)
    }

    fn recheck_documents(&self, scope: &Scope, log: LogId) {
        self.lock().remove(&(scope.org, log));
    }

    async fn forget_documents(&self, scope: &Scope, log: LogId) -> Result<(), RetrieveError> {
        let removed = self.index.remove_documents(scope, log).await;
        removed.map_err(|error| RetrieveError::Unavailable(Box::new(error)))
    }
}
