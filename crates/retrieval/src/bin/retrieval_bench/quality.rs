//! How often the right file is among the first three.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;
use skein_core::ports::{Chunk, RetrievalQuery, Retriever};
use skein_retrieval::EmbeddedIndex;

use crate::{Outcome, repo, say, scope, update};

/// One line of a question set.
#[derive(Debug, Deserialize)]
struct Question {
    question: String,
    /// Any of them is right.
    expected: Vec<Place>,
}

#[derive(Debug, Deserialize)]
struct Place {
    path: String,
    /// First and last line of the answer.
    lines: (u32, u32),
}

/// `data` holds one `<package>-<version>.jsonl` per code base; `sources` the directories of those names.
pub(crate) async fn run(data: &Path, sources: &Path) -> Outcome<()> {
    let mut sets = BTreeMap::new();
    for entry in std::fs::read_dir(data)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            sets.insert(name, std::fs::read_to_string(&path)?);
        }
    }
    let (mut right, mut at_lines, mut all) = (0, 0, 0);
    for (name, lines) in sets {
        let home = temporary_directory()?;
        let tree = home.join("tree");
        copy(&sources.join(&name), &tree)?;
        // Packages have no history; an empty one makes a work tree of them.
        std::fs::create_dir_all(tree.join(".git"))?;
        let index = EmbeddedIndex::open(&home.join("index.db"))?;
        update(&index, &tree).await?;
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            let question: Question = serde_json::from_str(line)?;
            let found = index.search(&scope(), &query(&question.question)).await?.chunks;
            let rank = file_rank(&question, &found);
            let is_at_lines = found.iter().take(5).any(|chunk| overlaps(&question, chunk));
            all += 1;
            right += u32::from(rank.is_some_and(|rank| rank < 3));
            at_lines += u32::from(is_at_lines);
            if !(rank.is_some_and(|rank| rank < 3) && is_at_lines) {
                say(&missed(&name, &question, rank, &found))?;
            }
        }
        std::fs::remove_dir_all(&home)?;
    }
    let percent = |count: u32| 100.0 * f64::from(count) / f64::from(all.max(1));
    say(&format!("right file in the first 3: {right} of {all} ({:.1} %)", percent(right)))?;
    say(&format!(
        "right lines in the first 5 passages: {at_lines} of {all} ({:.1} %)",
        percent(at_lines)
    ))
}

fn query(text: &str) -> RetrievalQuery {
    RetrievalQuery {
        text: text.to_owned(),
        repo: Some(repo()),
        documents: Vec::new(),
        paths: Vec::new(),
        language: None,
        collection: None,
        limit: 20,
    }
}

/// How many other files come before a right one.
fn file_rank(question: &Question, found: &[Chunk]) -> Option<usize> {
    let mut files: Vec<&str> = Vec::new();
    for chunk in found {
        if !files.contains(&chunk.path.as_str()) {
            files.push(&chunk.path);
        }
    }
    files.iter().position(|file| question.expected.iter().any(|place| place.path == *file))
}

fn overlaps(question: &Question, chunk: &Chunk) -> bool {
    question.expected.iter().any(|place| {
        place.path == chunk.path
            && chunk.start_line <= place.lines.1
            && place.lines.0 <= chunk.end_line
    })
}

fn missed(name: &str, question: &Question, rank: Option<usize>, found: &[Chunk]) -> String {
    let first: Vec<String> = found
        .iter()
        .take(4)
        .map(|chunk| format!("{}:{} {:.2}", chunk.path, chunk.start_line, chunk.score))
        .collect();
    let expected = &question.expected[0];
    let rank = rank.map_or("none".to_owned(), |rank| (rank + 1).to_string());
    format!(
        "{name}: {:?}\n    file rank {rank}, expected {}:{}; found {}",
        question.question,
        expected.path,
        expected.lines.0,
        first.join(", ")
    )
}

/// A directory of this process's own.
pub(crate) fn temporary_directory() -> Outcome<std::path::PathBuf> {
    let path = std::env::temp_dir().join(format!("retrieval-bench-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path)?;
    Ok(path)
}

/// Copies a directory.
pub(crate) fn copy(from: &Path, to: &Path) -> Outcome<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
