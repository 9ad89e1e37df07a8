//! Measures the index, and runs it alone for tests that kill it.
//!
//! ```text
//! retrieval-bench index ROOT INDEX            one run over a work tree; INDEX is a file, or URL#COLLECTION of a Qdrant
//! retrieval-bench speed ROOT [CHUNKS]         indexing, updating and searching a work tree
//! retrieval-bench search INDEX                searching an index that is there
//! retrieval-bench quality DATA SOURCES        how often the right file is among the first three
//! ```

mod hybrid;
mod quality;
mod speed;

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use skein_core::{
    model::{OrgId, RepoId, Scope, Timestamp, UserId},
    ports::{IndexJob, IndexProgress, IndexStatus, IndexWatch, PassageIndex},
};
use skein_retrieval::{EmbeddedIndex, QdrantIndex, qdrant::QdrantOptions};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["index", root, index] => index_once(Path::new(root), index).await,
        ["speed", root] => speed::run(Path::new(root), 100_000).await,
        ["speed", root, chunks] => match chunks.parse() {
            Ok(chunks) => speed::run(Path::new(root), chunks).await,
            Err(error) => Err(Box::from(error)),
        },
        ["search", index] => speed::search(Path::new(index)).await,
        ["quality", data, sources] => quality::run(Path::new(data), Path::new(sources)).await,
        _ => Err(Box::from("usage: retrieval-bench index|speed|search|quality …")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn index_once(root: &Path, index: &str) -> Outcome<()> {
    let status = match index.rsplit_once('#') {
        Some((url, collection)) => {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let options = QdrantOptions {
                url: url.to_owned(),
                collection: collection.to_owned(),
                api_key: None,
                clock_file: std::env::temp_dir().join(collection),
                read_timeout: Duration::from_secs(60),
            };
            update(&QdrantIndex::new(options)?, root).await?
        }
        None => update(&EmbeddedIndex::open(Path::new(index))?, root).await?,
    };
    say(&format!("{} files, {} chunks", status.files, status.chunks))?;
    speed::memory()
}

/// Brings the index of the one repository up to date.
async fn update(index: &dyn PassageIndex, root: &Path) -> Outcome<IndexStatus> {
    let root = root.canonicalize()?;
    let job = IndexJob {
        repo: repo(),
        root: root.to_str().ok_or("the path is not UTF-8")?.to_owned(),
        commit: None,
        at: Timestamp::from_millis(0),
    };
    Ok(index.index_repo(&scope(), job, &Unwatched, CancellationToken::new()).await?)
}

fn scope() -> Scope {
    let id = Uuid::from_u128(1);
    Scope::on_behalf_of(OrgId::from_uuid(id), UserId::from_uuid(id))
}

fn repo() -> RepoId {
    RepoId::from_uuid(Uuid::from_u128(2))
}

fn say(line: &str) -> Outcome<()> {
    Ok(writeln!(io::stdout(), "{line}")?)
}

struct Unwatched;

impl IndexWatch for Unwatched {
    fn progress(&self, _: IndexProgress) {}
}
