//! Questions with known answers, about the public code bases of `data/retrieval`: the right file comes early, and the
//! local agent quotes only lines that are in it.
//!
//! The code bases are packages that Skein is built from, so their sources are wherever it can be built.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

mod asking;
mod packages;

use std::{collections::BTreeSet, fs, path::Path};

use asking::Library;
use serde::Deserialize;
use skein_core::ports::Chunk;

/// Of all questions.
const LEAST_RIGHT: f64 = 0.85;

#[derive(Debug, Deserialize)]
struct Question {
    question: String,
    /// Any of them is right.
    expected: Vec<Place>,
}

#[derive(Debug, Deserialize)]
struct Place {
    path: String,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_file_comes_early_and_every_quoted_line_is_where_it_is_said_to_be() {
    let (mut asked, mut right, mut quotes) = (0_u32, 0_u32, 0_usize);
    for (name, questions) in sets() {
        let Some(sources) = packages::find(&name) else {
            eprintln!("skipped: {name} is not among the packages that Skein is built from now");
            continue;
        };
        let library = Library::of(&sources).await;
        for Question { question, expected } in questions {
            let found = library.search(&question).await;
            let is_right = files(&found)
                .iter()
                .take(3)
                .any(|file| expected.iter().any(|place| place.path == *file));
            asked += 1;
            right += u32::from(is_right);
            if !is_right {
                eprintln!("{name}: {question:?} found {:?}", files(&found));
            }
            for follow_up in ["and where is that tested?", "who calls it?"] {
                quotes += library.check_quotes(follow_up, &[&question]).await;
            }
            quotes += library.check_quotes(&question, &[]).await;
        }
        quotes += library.check_quotes("what is this project?", &[]).await;
    }
    assert_ne!(asked, 0, "the packages have other versions now, and data/retrieval has to follow");
    eprintln!("the right file is among the first three for {right} of {asked}; {quotes} quotes");
    assert!(quotes > asked as usize, "most questions are answered with quotes: {quotes}");
    assert!(f64::from(right) >= LEAST_RIGHT * f64::from(asked), "{right} of {asked}");
}

/// The name of each package, with its questions.
fn sets() -> Vec<(String, Vec<Question>)> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/retrieval");
    let mut sets = Vec::new();
    for entry in fs::read_dir(data).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let lines = fs::read_to_string(&path).unwrap();
            let questions = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            sets.push((path.file_stem().unwrap().to_str().unwrap().to_owned(), questions));
        }
    }
    sets.sort_by(|a, b| a.0.cmp(&b.0));
    sets
}

/// In the order in which they were found, each once.
fn files(found: &[Chunk]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    found.iter().map(|chunk| chunk.path.as_str()).filter(|path| seen.insert(*path)).collect()
}
