//! Texts that were uploaded to sessions.

use async_trait::async_trait;
use rusqlite::{Row, params};
use skein_core::{
    model::{Document, DocumentId, LogId, Scope, SessionId},
    ports::{DocumentReads, StoreError},
};

use super::{
    super::{
        SqliteStore,
        error::Fault,
        rows::{Columns, key, opt_key},
    },
    segments::segments,
};

#[async_trait]
impl DocumentReads for SqliteStore {
    async fn find_document(
        &self,
        scope: &Scope,
        document: DocumentId,
    ) -> Result<Option<Document>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT id, log_id, name, media_type, payload_id, size, created_by, created_at
                     FROM documents WHERE org_id = ?1 AND id = ?2",
                )?;
                let mut rows = statement.query(params![key(&org), key(&document)])?;
                rows.next()?.map(read_document).transpose()
            })
            .await
    }

    async fn list_documents(
        &self,
        scope: &Scope,
        logs: &[LogId],
        after: Option<DocumentId>,
        limit: u32,
    ) -> Result<Vec<Document>, StoreError> {
        let (org, logs) = (scope.org, logs.to_vec());
        self.readers
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT id, log_id, name, media_type, payload_id, size, created_by, created_at
                     FROM documents
                     WHERE org_id = ?1 AND log_id = ?2 AND id > coalesce(?3, x'') ORDER BY id LIMIT ?4",
                )?;
                let mut documents = Vec::new();
                for log in logs {
                    let mut rows =
                        statement.query(params![key(&org), key(&log), opt_key(&after), limit])?;
                    while let Some(row) = rows.next()? {
                        documents.push(read_document(row)?);
                    }
                }
                documents.sort_by_key(|document| document.id);
                documents.truncate(limit as usize);
                Ok(documents)
            })
            .await
    }

    async fn logs_of(&self, scope: &Scope, session: SessionId) -> Result<Vec<LogId>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let segments = segments(connection, org, session)?;
                let mut logs: Vec<LogId> = Vec::new();
                for segment in segments {
                    let log = LogId::from_uuid(uuid::Uuid::from_bytes(segment.log));
                    if !logs.contains(&log) {
                        logs.push(log);
                    }
                }
                Ok(logs)
            })
            .await
    }
}

fn read_document(row: &Row<'_>) -> Result<Document, Fault> {
    let mut columns = Columns::new("document", row);
    Ok(Document {
        id: columns.id()?,
        log: columns.id()?,
        name: columns.get()?,
        media_type: columns.get()?,
        text: columns.id()?,
        size_bytes: columns.counter()?,
        created_by: columns.id()?,
        created_at: columns.time()?,
    })
}
