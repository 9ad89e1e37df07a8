//! Which files and passages a turn sends, given what the chain holds already.

use std::{collections::HashMap, sync::Arc};

use crate::{
    model::{
        ChainItem, ChainItemKind, ChunkDifference, ChunkFate, FileFate, Sha256Hash, TurnChunk,
        TurnFile,
    },
    policy::tokens::estimate,
    ports::{Chunk, Origin},
};

/// A file as a request brought it, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenFile {
    pub file: TurnFile,
    /// None when it is too large to be sent.
    pub content: Option<Arc<str>>,
}

/// What a chain holds, by kind and path or chunk id.
#[derive(Debug, Clone, Default)]
pub struct Held<'a> {
    items: HashMap<(ChainItemKind, &'a str), &'a ChainItem>,
    is_live: bool,
}

impl<'a> Held<'a> {
    /// What the chain that the turn continues holds.
    pub fn live(items: &'a [ChainItem]) -> Self {
        Self { is_live: true, ..Self::given_up(items) }
    }

    /// What a chain held that is not continued: it tells what was shown, but saves nothing.
    pub fn given_up(items: &'a [ChainItem]) -> Self {
        let items = items.iter().map(|item| ((item.kind, item.item.as_str()), item)).collect();
        Self { items, is_live: false }
    }

    /// The version that was shown last.
    pub fn shown(&self, kind: ChainItemKind, item: &str) -> Option<&'a ChainItem> {
        self.items.get(&(kind, item)).copied()
    }

    /// The item, if exactly this version of it was shown last.
    pub fn shown_same(
        &self,
        kind: ChainItemKind,
        item: &str,
        sha256: Sha256Hash,
    ) -> Option<&'a ChainItem> {
        self.shown(kind, item).filter(|held| held.sha256 == sha256)
    }

    fn held(&self, kind: ChainItemKind, item: &str) -> Option<&'a ChainItem> {
        self.shown(kind, item).filter(|_| self.is_live)
    }
}

/// Whole files, never diffs: one that the chain holds in this very version stays behind.
pub fn plan_files(given: &[GivenFile], held: &Held<'_>) -> Vec<TurnFile> {
    let plan = |given: &GivenFile| {
        let file = given.file.clone();
        match file.fate {
            FileFate::TooLarge | FileFate::Binary => file,
            FileFate::Sent | FileFate::Unchanged | FileFate::NotUsed | FileFate::Waiting => {
                let before = held.held(ChainItemKind::File, &file.path);
                let (fate, reason) = match before {
                    Some(before) if before.sha256 == file.sha256 => {
                        (FileFate::Unchanged, "the chain holds this version")
                    }
                    Some(_) => (FileFate::Sent, "changed since it was last sent"),
                    None => (FileFate::Sent, "not in the chain yet"),
                };
                TurnFile { fate, reason: reason.to_owned(), ..file }
            }
        }
    };
    given.iter().map(plan).collect()
}

/// What became of each passage, best first. `budget` is in tokens.
pub fn plan_chunks(
    found: &[Chunk],
    given: &[GivenFile],
    held: &Held<'_>,
    budget: u64,
) -> Vec<TurnChunk> {
    let local: HashMap<&str, &GivenFile> =
        given.iter().map(|given| (given.file.path.as_str(), given)).collect();
    let mut left = budget;
    let plan = |chunk: &Chunk| {
        let tokens = estimate(chunk.text.len() as u64);
        let (fate, reason) = if is_stale(chunk, local.get(chunk.path.as_str()).copied(), held) {
            (ChunkFate::StaleLocalVersion, "the local version of the file differs")
        } else if is_held(chunk, held) {
            (ChunkFate::AlreadyInChain, "the chain holds this passage")
        } else if tokens > left {
            (ChunkFate::OverBudget, "the passages of this turn would be too long")
        } else {
            left -= tokens;
            (ChunkFate::New, "not in the chain yet")
        };
        TurnChunk {
            chunk_id: chunk.id.clone(),
            path: chunk.path.clone(),
            start_line: chunk.start_line,
            end_line: chunk.end_line,
            sha256: chunk.sha256,
            size_bytes: chunk.text.len() as u64,
            score: chunk.score,
            fate,
            reason: reason.to_owned(),
        }
    };
    found.iter().map(plan).collect()
}

/// The chunk ids of this turn against those of the turn before.
pub fn difference(before: &[String], now: &[TurnChunk]) -> ChunkDifference {
    let is_now = |id: &String| now.iter().any(|chunk| chunk.chunk_id == *id);
    let (kept, removed): (Vec<String>, Vec<String>) = before.iter().cloned().partition(is_now);
    let ids = now.iter().map(|chunk| chunk.chunk_id.clone());
    let added = ids.filter(|id| !before.contains(id)).collect();
    ChunkDifference { added, removed, kept }
}

fn is_held(chunk: &Chunk, held: &Held<'_>) -> bool {
    let item = held.held(ChainItemKind::Chunk, &chunk.id);
    item.is_some_and(|item| item.sha256 == chunk.sha256)
}

/// Whether the index knows another version of the file than the caller has, or has shown to the chain. What is still in
/// its work tree is newer than what was shown; of a commit nobody can tell.
fn is_stale(chunk: &Chunk, local: Option<&GivenFile>, held: &Held<'_>) -> bool {
    if chunk.origin == Origin::Document {
        return false;
    }
    if let Some(local) = local {
        return match (chunk.file_sha256, &local.content) {
            (Some(indexed), _) => indexed != local.file.sha256,
            (None, Some(content)) => !content.contains(&chunk.text),
            (None, None) => false,
        };
    }
    match (chunk.origin, chunk.file_sha256, held.shown(ChainItemKind::File, &chunk.path)) {
        (Origin::Commit, Some(indexed), Some(shown)) => indexed != shown.sha256,
        _ => false,
    }
}

#[cfg(test)]
#[path = "delta_tests.rs"]
mod tests;
