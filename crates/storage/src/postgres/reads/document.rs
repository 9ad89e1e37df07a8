//! Texts that were uploaded to sessions.

use async_trait::async_trait;
use skein_core::{
    model::{Document, DocumentId, LogId, PayloadId, Scope, SessionId, UserId},
    ports::{DocumentReads, StoreError},
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::{
    PostgresStore,
    connection::Query,
    error::Fault,
    rows::{Columns, first_or},
};

#[async_trait]
impl DocumentReads for PostgresStore {
    async fn find_document(
        &self,
        scope: &Scope,
        id: DocumentId,
    ) -> Result<Option<Document>, StoreError> {
        let sql = "SELECT id, log_id, name, media_type, payload_id, size, created_by, created_at
                   FROM documents WHERE org_id = $1 AND id = $2";
        let query: Query<'_> = (sql, &[scope.org.as_uuid(), id.as_uuid()]);
        Ok(self.list(scope, query, document).await?.pop())
    }

    async fn list_documents(
        &self,
        scope: &Scope,
        logs: &[LogId],
        after: Option<DocumentId>,
        limit: u32,
    ) -> Result<Vec<Document>, StoreError> {
        let sql = "SELECT id, log_id, name, media_type, payload_id, size, created_by, created_at
                   FROM documents WHERE org_id = $1 AND log_id = ANY ($2) AND id > $3
                   ORDER BY id LIMIT $4";
        let logs: Vec<Uuid> = logs.iter().map(|log| *log.as_uuid()).collect();
        let after = first_or(after.as_ref().map(DocumentId::as_uuid));
        let query: Query<'_> = (sql, &[scope.org.as_uuid(), &logs, &after, &i64::from(limit)]);
        self.list(scope, query, document).await
    }

    async fn logs_of(&self, scope: &Scope, session: SessionId) -> Result<Vec<LogId>, StoreError> {
        let sql = "SELECT log_id FROM session_segments WHERE org_id = $1 AND session_id = $2
                   GROUP BY log_id ORDER BY min(from_seq)";
        self.list(scope, (sql, &[scope.org.as_uuid(), session.as_uuid()]), |row| {
            Columns::new("segment", row).id("log_id", LogId::from_uuid)
        })
        .await
    }
}

fn document(row: &Row) -> Result<Document, Fault> {
    let row = Columns::new("document", row);
    Ok(Document {
        id: row.id("id", DocumentId::from_uuid)?,
        log: row.id("log_id", LogId::from_uuid)?,
        name: row.get("name")?,
        media_type: row.get("media_type")?,
        text: row.id("payload_id", PayloadId::from_uuid)?,
        size_bytes: row.counter("size")?,
        created_by: row.id("created_by", UserId::from_uuid)?,
        created_at: row.time("created_at")?,
    })
}
