//! What is kept in Qdrant: passages, the files that runs know, and what searches see.
//!
//! The workspace of whoever asks is no part of any of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use skein_core::{
    model::{DocumentId, OrgId, RepoId, Sha256Hash, Timestamp},
    ports::{Chunk, IndexState, IndexStatus, Origin},
};
use uuid::{Builder, Uuid};

use super::sparse;
use crate::pipeline::{Evidence, NewFile, NewPassage};

/// What a point is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Chunk,
    File,
    Repo,
    Document,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Chunk => "chunk",
            Self::File => "file",
            Self::Repo => "repo",
            Self::Document => "document",
        }
    }
}

/// Payload fields that are filtered by, with their index.
pub(super) const INDEXED: &[(&str, &str)] = &[
    ("org", "keyword"),
    ("kind", "keyword"),
    ("repo", "keyword"),
    ("log", "keyword"),
    ("document", "keyword"),
    ("version", "keyword"),
    ("file", "keyword"),
    ("path", "keyword"),
    ("places", "keyword"),
    ("language", "keyword"),
    ("sha256", "keyword"),
    ("from", "integer"),
    ("to", "integer"),
];

/// A repository as searches see it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct RepoState {
    /// The generation that searches see. It only grows, also over removals.
    pub visible: i64,
    pub is_removed: bool,
    pub commit: Option<String>,
    /// Whether that commit's tree was indexed, not the work tree.
    #[serde(default)]
    pub is_of_commit: bool,
    pub files: u64,
    pub chunks: u64,
    pub skipped: BTreeMap<String, u64>,
    pub updated_at: Option<i64>,
    pub error: Option<String>,
    /// What the last run went by to leave files out.
    #[serde(default)]
    pub rules: u32,
}

impl RepoState {
    pub(super) fn point(&self, org: OrgId, repo: RepoId) -> Value {
        let mut payload = json!(self);
        payload["kind"] = Kind::Repo.name().into();
        payload["org"] = org.to_string().into();
        payload["repo"] = repo.to_string().into();
        json!({"id": repo_id(org, repo), "vector": {}, "payload": payload})
    }

    /// What callers are told. `is_busy`: a run is going on.
    pub(super) fn status(self, is_busy: bool, note: Option<String>) -> IndexStatus {
        let state = match (is_busy, &self.error, self.updated_at) {
            (true, ..) => IndexState::Indexing,
            (false, Some(_), _) => IndexState::Failed,
            (false, None, None) => IndexState::Idle,
            (false, None, Some(_)) => IndexState::Ready,
        };
        IndexStatus {
            state,
            commit: self.commit,
            files: self.files,
            chunks: self.chunks,
            skipped: self.skipped,
            updated_at: self.updated_at.map(Timestamp::from_millis),
            error: self.error.or(note),
        }
    }
}

/// A file as runs know it.
#[derive(Debug, Deserialize)]
pub(super) struct FileState {
    pub path: String,
    pub sha256: Sha256Hash,
    pub chunks: u64,
    pub from: i64,
    #[serde(default)]
    pub size: Option<i64>,
    #[serde(default)]
    pub mtime_ns: Option<i64>,
    #[serde(default)]
    pub ctime_ns: Option<i64>,
    #[serde(default)]
    pub inode: Option<i64>,
    #[serde(default)]
    pub blob: Option<String>,
}

/// What will show that a file is unchanged, as a payload.
pub(super) fn evidence(evidence: &Evidence) -> Value {
    json!({
        "size": evidence.stat.map(|stat| stat.size.cast_signed()),
        "mtime_ns": evidence.stat.map(|stat| stat.mtime_ns),
        "ctime_ns": evidence.stat.map(|stat| stat.ctime_ns),
        "inode": evidence.stat.map(|stat| stat.inode.cast_signed()),
        "blob": evidence.blob,
    })
}

/// A document as searches see it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct DocumentState {
    pub document: Uuid,
    /// Which of its passages count.
    pub version: Uuid,
}

/// A passage as searches read it.
#[derive(Debug, Deserialize)]
pub(super) struct Passage {
    pub file: Uuid,
    #[serde(default)]
    document: Option<Uuid>,
    chunk_id: Uuid,
    pub path: String,
    #[serde(default)]
    language: Option<String>,
    #[serde(default)]
    symbol: Option<String>,
    start_line: u32,
    end_line: u32,
    sha256: Sha256Hash,
    file_sha256: Sha256Hash,
    text: String,
}

impl From<Passage> for Chunk {
    fn from(passage: Passage) -> Self {
        Self {
            id: passage.chunk_id.hyphenated().to_string(),
            path: passage.path,
            start_line: passage.start_line,
            end_line: passage.end_line,
            language: passage.language,
            symbol: passage.symbol,
            sha256: passage.sha256,
            file_sha256: Some(passage.file_sha256),
            origin: match passage.document {
                Some(_) => Origin::Document,
                None => Origin::WorkTree,
            },
            text: passage.text,
            score: 0.0,
            lexical: 0.0,
        }
    }
}

/// The points of a file's passages. `owner` is what tells whose they are.
pub(super) fn passages<'a>(
    id: Uuid,
    file: &'a NewFile,
    owner: &'a Value,
) -> impl Iterator<Item = Value> + 'a {
    let places = places(&file.path);
    file.passages.iter().enumerate().map(move |(ordinal, passage)| {
        let mut payload = owner.clone();
        let fields = passage_fields(file, passage, id, &places);
        if let (Value::Object(payload), Value::Object(fields)) = (&mut payload, fields) {
            payload.extend(fields);
        }
        let ordinal = (ordinal as u64).to_be_bytes();
        json!({
            "id": point_id(&[b"chunk", id.as_bytes(), &ordinal]),
            "vector": sparse::of_passage(&file.path, passage),
            "payload": payload,
        })
    })
}

fn passage_fields(file: &NewFile, passage: &NewPassage, id: Uuid, places: &[&str]) -> Value {
    json!({
        "kind": Kind::Chunk.name(),
        "file": id,
        "chunk_id": Uuid::from_bytes(passage.id),
        "path": file.path,
        "places": places,
        "language": file.language,
        "symbol": passage.symbol,
        "start_line": passage.passage.start_line,
        "end_line": passage.passage.end_line,
        "sha256": passage.passage.sha256,
        "file_sha256": file.sha256,
        "text": passage.passage.text,
    })
}

/// The file and every directory above it.
fn places(path: &str) -> Vec<&str> {
    let above = path.match_indices('/').map(|(at, _)| &path[..at]);
    above.chain([path]).collect()
}

pub(super) fn repo_id(org: OrgId, repo: RepoId) -> Uuid {
    point_id(&[b"repo", org.as_uuid().as_bytes(), repo.as_uuid().as_bytes()])
}

pub(super) fn document_id(org: OrgId, document: DocumentId) -> Uuid {
    point_id(&[b"document", org.as_uuid().as_bytes(), document.as_uuid().as_bytes()])
}

/// The same for the same parts, whoever computes it.
pub(super) fn point_id(parts: &[&[u8]]) -> Uuid {
    let lengths: Vec<[u8; 8]> =
        parts.iter().map(|part| (part.len() as u64).to_be_bytes()).collect();
    let parts = lengths.iter().zip(parts).flat_map(|(length, part)| [length.as_slice(), *part]);
    let digest = Sha256Hash::of_parts([b"skein point 1".as_slice()].into_iter().chain(parts));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_bytes()[..16]);
    Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_in_every_directory_above_it() {
        assert_eq!(places("src/deep/a.rs"), ["src", "src/deep", "src/deep/a.rs"]);
        assert_eq!(places("a.rs"), ["a.rs"]);
    }

    #[test]
    fn ids_tell_parts_apart() {
        assert_ne!(point_id(&[b"ab", b"c"]), point_id(&[b"a", b"bc"]));
        assert_eq!(point_id(&[b"ab", b"c"]), point_id(&[b"ab", b"c"]));
    }
}
