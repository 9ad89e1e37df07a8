//! How runs begin, fail and end.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
};

use skein_core::ports::{IndexError, IndexJob, IndexProgress, IndexState, RetrievalQuery};
use tokio_util::sync::CancellationToken;

use super::{Shelf, Unwatched, Watched, job, query, repo, scope};

pub async fn the_status_says_what_is_there(shelf: Shelf) {
    let tree = shelf.tree("a");
    tree.write("a.txt", "one\n").write("b.md", "# Two\n\ntwo\n").write("c.bin", "\0");
    let commit = tree.commit();
    let never = shelf.index.index_status(&scope(1), repo(1)).await.expect("a status");

    let told = shelf.update(&scope(1), repo(1), &tree).await;

    let kept = shelf.index.index_status(&scope(1), repo(1)).await.expect("a status");
    assert_eq!(never, None);
    assert_eq!(kept.as_ref(), Some(&told));
    assert_eq!(told.state, IndexState::Ready);
    assert_eq!((told.files, told.chunks), (2, 2));
    assert_eq!(told.commit, Some(commit));
    assert_eq!(told.updated_at, Some(job(repo(1), &tree).at));
    assert_eq!(told.error, None);
}

pub async fn a_place_without_git_is_refused(shelf: Shelf) {
    let tree = shelf.tree("a");
    tree.write("inner/a.txt", "walrus\n");
    let inside = IndexJob { root: format!("{}/inner", tree.root()), ..job(repo(1), &tree) };
    let nowhere = IndexJob { root: format!("{}/nowhere", tree.root()), ..job(repo(1), &tree) };

    for job in [inside, nowhere] {
        let refused = shelf.try_index(&scope(1), job).await;
        assert!(matches!(refused, Err(IndexError::NotARepository(_))), "{refused:?}");
    }

    assert_eq!(shelf.paths(&scope(1), query(repo(1), "walrus")).await, [] as [&str; 0]);
}

pub async fn an_unknown_commit_is_refused(shelf: Shelf) {
    let tree = shelf.tree("a");
    tree.write("a.txt", "walrus\n");
    tree.commit();

    for name in ["0".repeat(40), "main".to_owned(), "--all".to_owned(), String::new()] {
        let job = IndexJob { commit: Some(name), ..job(repo(1), &tree) };
        let refused = shelf.try_index(&scope(1), job).await;
        assert!(matches!(refused, Err(IndexError::UnknownCommit(_))), "{refused:?}");
    }
}

pub async fn a_failed_run_leaves_what_was_there(shelf: Shelf) {
    let tree = shelf.tree("a");
    tree.write("a.txt", "walrus\n");
    let before = shelf.update(&scope(1), repo(1), &tree).await;
    let gone = IndexJob { root: format!("{}/gone", tree.root()), ..job(repo(1), &tree) };

    shelf.try_index(&scope(1), gone).await.expect_err("there is nothing");

    let status = shelf.index.index_status(&scope(1), repo(1)).await.expect("a status");
    let status = status.expect("it was indexed");
    assert_eq!(status.state, IndexState::Failed);
    assert_eq!((status.files, status.chunks), (before.files, before.chunks));
    assert!(status.error.is_some());
    assert_eq!(shelf.paths(&scope(1), query(repo(1), "walrus")).await, ["a.txt"]);
    assert_eq!(shelf.update(&scope(1), repo(1), &tree).await, before);
}

pub async fn a_stopped_run_leaves_what_was_there(shelf: Shelf) {
    let tree = shelf.tree("a");
    tree.write("a.txt", "walrus\n");
    let before = shelf.update(&scope(1), repo(1), &tree).await;
    tree.write("a.txt", "oyster\n");
    let stop = CancellationToken::new();
    stop.cancel();

    let stopped = shelf.index.index_repo(&scope(1), job(repo(1), &tree), &Unwatched, stop).await;

    assert!(matches!(stopped, Err(IndexError::Cancelled)), "{stopped:?}");
    let status = shelf.index.index_status(&scope(1), repo(1)).await.expect("a status");
    assert_eq!(status, Some(before));
    assert_eq!(shelf.paths(&scope(1), query(repo(1), "walrus")).await, ["a.txt"]);
}

pub async fn a_repository_is_indexed_by_one_run_at_a_time(shelf: Shelf) {
    let (a, b) = (shelf.tree("a"), shelf.tree("b"));
    for number in 0..50 {
        a.write(&format!("{number}.txt"), "walrus\n");
    }
    b.write("b.txt", "oyster\n");
    let scope = scope(1);

    let (first, second, of_other) = tokio::join!(
        shelf.try_index(&scope, job(repo(1), &a)),
        shelf.try_index(&scope, job(repo(1), &a)),
        shelf.try_index(&scope, job(repo(2), &b)),
    );

    assert_eq!(first.expect("the first run").files, 50);
    assert!(matches!(second, Err(IndexError::Busy)), "{second:?}");
    assert_eq!(of_other.expect("another repository").files, 1);
}

pub async fn progress_is_told_to_the_end(shelf: Shelf) {
    let tree = shelf.tree("a");
    for number in 0..20 {
        tree.write(&format!("{number}.txt"), "walrus\n");
    }
    let watched = Watched::default();

    let (job, stop) = (job(repo(1), &tree), CancellationToken::new());
    shelf.index.index_repo(&scope(1), job, &watched, stop).await.expect("the tree is indexed");

    let told = watched.told();
    let end = IndexProgress { files_done: 20, files_total: Some(20), chunks: 20 };
    assert_eq!(told.last(), Some(&end));
    assert!(told.iter().map(|progress| progress.files_done).is_sorted());
}

pub async fn searches_see_before_or_after_and_never_between(shelf: Shelf) {
    const FILES: usize = 150;
    let tree = shelf.tree("a");
    let write = |word: &str| {
        for number in 0..FILES {
            tree.write(&format!("{number}.txt"), &format!("walrus {word} {number}\n"));
        }
    };
    write("0");
    shelf.update(&scope(1), repo(1), &tree).await;
    let is_over = AtomicBool::new(false);
    let all = || RetrievalQuery { limit: 1_000, ..query(repo(1), "walrus") };

    let runs = async {
        for round in 1..4 {
            write(&round.to_string());
            shelf.update(&scope(1), repo(1), &tree).await;
        }
        is_over.store(true, Ordering::SeqCst);
    };
    let searches = async {
        let mut seen = BTreeSet::new();
        while !is_over.load(Ordering::SeqCst) {
            let found = shelf.search(&scope(1), all()).await;
            let words: BTreeSet<String> = found
                .iter()
                .filter_map(|chunk| chunk.text.split(' ').nth(1).map(str::to_owned))
                .collect();
            assert_eq!((found.len(), words.len()), (FILES, 1), "{words:?}");
            seen.extend(words);
        }
        seen
    };
    let ((), seen) = tokio::join!(runs, searches);

    assert!(!seen.is_empty());
    assert_eq!(shelf.search(&scope(1), all()).await.len(), FILES);
}
