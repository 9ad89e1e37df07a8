//! Texts that were uploaded to sessions.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::json;
use skein_core::{
    model::{DocumentId, LogId, OrgId, Sha256Hash},
    ports::IndexDocument,
};
use uuid::Uuid;

use super::{
    Inner, QdrantError,
    filters::{all, is, of_logs},
    points::{self, Kind, document_id, point_id},
};
use crate::{
    chunk::Chunker,
    fault::Fault,
    language::{detect, of_media_type},
    pipeline::{Evidence, NewFile, Text, prepare},
};

/// Points in one request.
const POINTS_AT_ONCE: usize = 128;

/// A document with the number of its passages.
#[derive(Deserialize)]
struct Size {
    document: Uuid,
    chunks: u32,
}

impl Inner {
    /// One write of one point makes the new text visible and the old one not.
    pub(super) async fn add_document(
        &self,
        org: OrgId,
        document: IndexDocument,
    ) -> Result<u32, Fault> {
        let (log, id) = (document.log, document.id);
        let prepared = tokio::task::spawn_blocking(move || prepared(org, &document));
        let file = prepared.await.map_err(|_| Fault::Broken)?;
        let version = point_id(&[
            b"version",
            org.as_uuid().as_bytes(),
            id.as_uuid().as_bytes(),
            file.language.unwrap_or_default().as_bytes(),
            file.path.as_bytes(),
            file.sha256.as_bytes(),
        ]);
        let owner = json!({
            "org": org.to_string(),
            "log": log.to_string(),
            "document": id.to_string(),
            "version": version,
        });
        self.prepare().await?;
        let mut points = Vec::new();
        for point in points::passages(version, &file, &owner) {
            points.push(point);
            if points.len() >= POINTS_AT_ONCE {
                self.upsert_passages(org, &mut points).await?;
            }
        }
        self.upsert_passages(org, &mut points).await?;
        let mut payload = owner;
        payload["kind"] = Kind::Document.name().into();
        payload["chunks"] = file.passages.len().into();
        let point = json!({"id": document_id(org, id), "vector": {}, "payload": payload});
        self.client.upsert(&[point]).await?;
        let filter = json!({
            "must": [
                is("org", org.to_string()),
                is("document", id.to_string()),
                is("kind", Kind::Chunk.name()),
            ],
            "must_not": [is("version", version.to_string())],
        });
        self.client.delete(&filter).await?;
        Ok(u32::try_from(file.passages.len()).unwrap_or(u32::MAX))
    }

    /// How many passages there are of each of these.
    pub(super) async fn document_passages(
        &self,
        org: OrgId,
        documents: &[DocumentId],
    ) -> Result<HashMap<DocumentId, u32>, QdrantError> {
        let ids: Vec<Uuid> = documents.iter().map(|document| document_id(org, *document)).collect();
        let found = self.client.retrieve::<Size>(&ids).await?;
        let sizes = found.into_iter().map(|point| point.payload);
        Ok(sizes.map(|size| (DocumentId::from_uuid(size.document), size.chunks)).collect())
    }

    /// First what makes them visible.
    pub(super) async fn remove_documents(&self, org: OrgId, log: LogId) -> Result<(), QdrantError> {
        for kind in [Kind::Document, Kind::Chunk] {
            match self.client.delete(&all(of_logs(org, &[log], kind))).await {
                Err(error) if error.is_missing() => return Ok(()),
                done => done?,
            }
        }
        Ok(())
    }
}

fn prepared(org: OrgId, document: &IndexDocument) -> NewFile {
    let language =
        of_media_type(&document.media_type).or_else(|| detect(&document.name, &document.text));
    let text = Text {
        path: &document.name,
        text: &document.text,
        language,
        sha256: Sha256Hash::of(document.text.as_bytes()),
        owner: [org.as_uuid().as_bytes(), document.id.as_uuid().as_bytes()],
    };
    prepare(&mut Chunker::default(), &text, Evidence::default())
}
