//! Qdrant goes away and comes back, and everything goes on by itself; and what it is given is what it may have.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, also in its helpers"
)]

mod common;

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use skein_core::ports::{IndexError, IndexState, RetrieveError};
use skein_retrieval::{QdrantIndex, qdrant::QdrantOptions};
use skein_testkit::retrieval::{Shelf, job, query, repo, scope};
use tempfile::TempDir;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_util::task::TaskTracker;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Open,
    /// Connections end at once.
    Cut,
    /// Connections stay, and nobody answers.
    Silent,
}

/// Stands between the index and Qdrant.
struct Proxy {
    url: String,
    line: watch::Sender<Line>,
}

impl Proxy {
    async fn before(url: &str) -> Self {
        let target = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (line, seen) = watch::channel(Line::Open);
        TaskTracker::new().spawn(async move {
            let tracker = TaskTracker::new();
            while let Ok((stream, _)) = listener.accept().await {
                tracker.spawn(carry(stream, target.clone(), seen.clone()));
            }
        });
        Self { url, line }
    }
}

async fn carry(mut near: TcpStream, target: String, mut line: watch::Receiver<Line>) {
    if *line.borrow() == Line::Silent {
        let _ = line.wait_for(|line| *line != Line::Silent).await;
        return;
    }
    if *line.borrow() == Line::Cut {
        return;
    }
    let Ok(mut far) = TcpStream::connect(target).await else { return };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
        _ = line.wait_for(|line| *line != Line::Open) => {}
    }
}

/// An index behind a proxy, in a collection of its own.
struct Desk {
    home: TempDir,
    proxy: Proxy,
    options: QdrantOptions,
    shelf: Shelf,
}

impl Desk {
    async fn open() -> Option<Self> {
        let home = tempfile::tempdir().unwrap();
        let options = common::qdrant(home.path());
        let options = options.inspect_err(|reason| eprintln!("skipped: {reason}")).ok()?;
        let proxy = Proxy::before(&options.url).await;
        let index = QdrantIndex::new(QdrantOptions { url: proxy.url.clone(), ..options.clone() });
        let shelf = Shelf::new(Arc::new(index.unwrap()), home.path().join("trees"));
        Some(Self { home, proxy, options, shelf })
    }

    async fn search(&self) -> Result<usize, RetrieveError> {
        let found = self.shelf.index.search(&scope(1), &query(repo(1), "walrus")).await;
        found.map(|found| found.chunks.len())
    }

    /// Asks until there is an answer.
    async fn until_found(&self) -> usize {
        let started = Instant::now();
        loop {
            match self.search().await {
                Ok(found) => return found,
                Err(error) => assert!(started.elapsed() < Duration::from_secs(30), "{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn searches_fail_while_qdrant_is_away_and_go_on_when_it_is_back() {
    let Some(desk) = Desk::open().await else { return };
    let tree = desk.shelf.tree("a");
    tree.write("a.txt", "the walrus sings\n");
    desk.shelf.update(&scope(1), repo(1), &tree).await;

    for line in [Line::Cut, Line::Silent] {
        desk.proxy.line.send_replace(line);
        let first = desk.search().await;
        let started = Instant::now();
        let others = [desk.search().await, desk.search().await, desk.search().await];
        // Whoever asks after somebody has waited does not wait too.
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
        assert!(first.is_err() && others.iter().all(Result::is_err), "{line:?}");

        desk.proxy.line.send_replace(Line::Open);
        assert_eq!(desk.until_found().await, 1, "{line:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_loses_qdrant_leaves_what_was_there() {
    let Some(desk) = Desk::open().await else { return };
    let tree = desk.shelf.tree("a");
    tree.write("a.txt", "the walrus sings\n");
    desk.shelf.update(&scope(1), repo(1), &tree).await;
    tree.write("b.txt", "the walrus sleeps\n");
    desk.proxy.line.send_replace(Line::Cut);

    let lost = desk.shelf.try_index(&scope(1), job(repo(1), &tree)).await;
    desk.proxy.line.send_replace(Line::Open);
    let before = desk.until_found().await;
    let after = desk.shelf.update(&scope(1), repo(1), &tree).await;

    assert!(matches!(lost, Err(IndexError::Unavailable(_))), "{lost:?}");
    assert_eq!((before, after.files), (1, 2));
    assert_eq!(after.state, IndexState::Ready);
    assert_eq!(desk.until_found().await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_may_be_opened_before_qdrant_is_there() {
    let Some(desk) = Desk::open().await else { return };
    let tree = desk.shelf.tree("a");
    tree.write("a.txt", "the walrus sings\n");
    desk.proxy.line.send_replace(Line::Cut);
    let away = desk.search().await;

    desk.proxy.line.send_replace(Line::Open);
    let empty = desk.until_found().await;
    desk.shelf.update(&scope(1), repo(1), &tree).await;

    assert!(away.is_err());
    assert_eq!((empty, desk.until_found().await), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collection_that_somebody_removes_is_made_again() {
    let Some(desk) = Desk::open().await else { return };
    let tree = desk.shelf.tree("a");
    tree.write("a.txt", "the walrus sings\n");
    desk.shelf.update(&scope(1), repo(1), &tree).await;

    common::remove_collection(&desk.options.url, &desk.options.collection);
    let gone = desk.search().await;
    let status = desk.shelf.index.index_status(&scope(1), repo(1)).await;
    desk.shelf.update(&scope(1), repo(1), &tree).await;

    assert_eq!(gone.unwrap(), 0);
    assert_eq!(status.unwrap(), None);
    assert_eq!(desk.search().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_run_wrote_late_is_gone_after_the_next_one() {
    let Some(desk) = Desk::open().await else { return };
    let tree = desk.shelf.tree("a");
    tree.write("a.txt", "the walrus sings\n");
    desk.shelf.update(&scope(1), repo(1), &tree).await;
    let mut points = common::every_point(&desk.options.url, &desk.options.collection);
    let mut late =
        points.remove(points.iter().position(|p| p["payload"]["kind"] == "chunk").unwrap());
    late["id"] = "00000000-0000-0000-0000-0000000000aa".into();
    late["payload"]["file"] = "00000000-0000-0000-0000-0000000000bb".into();
    common::put_point(&desk.options.url, &desk.options.collection, &late);
    assert_eq!(desk.search().await.unwrap(), 2);

    desk.shelf.update(&scope(1), repo(1), &tree).await;

    assert_eq!(desk.search().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_point_has_its_tenant_and_none_has_more_than_is_needed() {
    let Some(desk) = Desk::open().await else { return };
    let tree = desk.shelf.tree("a");
    tree.write("src/a.rs", "/// Sings.\npub fn walrus() {}\n");
    desk.shelf.update(&scope(1), repo(1), &tree).await;

    let points = common::every_point(&desk.options.url, &desk.options.collection);

    let fields: BTreeSet<&str> = points
        .iter()
        .flat_map(|point| point["payload"].as_object().unwrap().keys().map(String::as_str))
        .collect();
    let known = [
        "blob",
        "chunk_id",
        "chunks",
        "commit",
        "ctime_ns",
        "end_line",
        "error",
        "file",
        "file_sha256",
        "files",
        "from",
        "inode",
        "is_complete",
        "is_of_commit",
        "is_removed",
        "kind",
        "language",
        "mtime_ns",
        "org",
        "path",
        "places",
        "repo",
        "rules",
        "sha256",
        "size",
        "skipped",
        "start_line",
        "symbol",
        "text",
        "updated_at",
        "visible",
    ];
    assert_eq!(fields.into_iter().collect::<Vec<_>>(), known);
    let org = scope(1).org.to_string();
    assert!(points.iter().all(|point| point["payload"]["org"] == org.as_str()), "{points:?}");
    let root = desk.home.path().to_str().unwrap();
    assert!(!format!("{points:?}").contains(root), "where a repository is stays here");
}
