//! Indexes, search and documents.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skein_core::{
    indexing::{NewDocument, RepoIndex},
    model, ports,
};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::Time;

/// What is to be indexed of a repository.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IndexRepo {
    /// That commit's tree; left out: the work tree as it is.
    #[schema(pattern = "^[0-9a-fA-F]{4,64}$")]
    pub commit: Option<String>,
}

/// Where a repository's index stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// idle, indexing, ready or failed.
    #[schema(example = "ready")]
    pub state: &'static str,
    pub commit: Option<String>,
    pub files: u64,
    pub chunks: u64,
    /// Files that were left out, by reason.
    pub skipped: BTreeMap<String, u64>,
    pub updated_at: Option<Time>,
    /// Why the last run failed.
    pub error: Option<String>,
    /// The run that goes on.
    pub progress: Option<IndexProgress>,
}

/// How far a run has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IndexProgress {
    pub files_done: u64,
    /// Expected until the tree has been walked; not known at first.
    pub files_total: Option<u64>,
    pub chunks: u64,
}

/// Passages, the best first.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SearchResults {
    pub results: Vec<SearchResult>,
}

/// A passage that was found.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchResult {
    pub chunk_id: String,
    pub path: String,
    pub start_line: u32,
    pub end_line: u32,
    pub content_hash: String,
    pub score: f64,
    pub text: String,
    /// What the passage defines.
    pub symbol: Option<String>,
    pub language: Option<String>,
}

/// A text for a session.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddDocument {
    #[schema(min_length = 1, example = "schema.sql")]
    pub name: String,
    #[schema(example = "application/sql")]
    pub media_type: Option<String>,
    pub content: String,
}

/// A text that was added to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    pub id: Uuid,
    pub name: String,
    pub media_type: String,
    pub size_bytes: u64,
    pub created_at: Time,
    /// Passages that it was taken apart into; only in the answer that adds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u32>,
    /// The whole text.
    pub content_url: String,
}

/// A page of documents, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DocumentList {
    pub documents: Vec<Document>,
    /// The `cursor` of the next page, if there is one.
    pub next_cursor: Option<String>,
}

impl From<RepoIndex> for Index {
    fn from(index: RepoIndex) -> Self {
        let status = index.status;
        Self {
            state: status.state.as_str(),
            commit: status.commit,
            files: status.files,
            chunks: status.chunks,
            skipped: status.skipped,
            updated_at: status.updated_at.map(Time),
            error: status.error,
            progress: index.progress.map(|progress| IndexProgress {
                files_done: progress.files_done,
                files_total: progress.files_total,
                chunks: progress.chunks,
            }),
        }
    }
}

impl From<ports::Chunk> for SearchResult {
    fn from(chunk: ports::Chunk) -> Self {
        Self {
            chunk_id: chunk.id,
            path: chunk.path,
            start_line: chunk.start_line,
            end_line: chunk.end_line,
            content_hash: chunk.sha256.to_string(),
            score: chunk.score,
            text: chunk.text,
            symbol: chunk.symbol,
            language: chunk.language,
        }
    }
}

impl From<AddDocument> for NewDocument {
    fn from(document: AddDocument) -> Self {
        let AddDocument { name, media_type, content } = document;
        Self { name, media_type, text: content }
    }
}

impl Document {
    pub fn new(document: model::Document, chunks: Option<u32>) -> Self {
        Self {
            id: *document.id.as_uuid(),
            name: document.name,
            media_type: document.media_type,
            size_bytes: document.size_bytes,
            created_at: document.created_at.into(),
            chunks,
            content_url: crate::payload_url(document.text),
        }
    }
}

impl From<model::Document> for Document {
    fn from(document: model::Document) -> Self {
        Self::new(document, None)
    }
}
