//! The contract of the passage index: one story per promise, told to every engine.
//!
//! An engine proves itself with one small file:
//!
//! ```text
//! async fn open() -> skein_testkit::retrieval::TestIndex { … }
//!
//! skein_testkit::passage_index_tests!(open);
//! ```

pub mod documents;
pub mod repositories;
pub mod runs;
pub mod searches;
mod tree;

use std::{any::Any, path::PathBuf, sync::Arc, sync::Mutex};

use skein_core::{
    model::{LogId, OrgId, RepoId, Scope, Timestamp, UserId},
    ports::{
        Chunk, IndexError, IndexJob, IndexProgress, IndexStatus, IndexWatch, PassageIndex,
        RetrievalQuery,
    },
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use tree::Tree;

/// A fresh, empty index with a place for work trees, or the reason why there is none on this machine.
pub enum TestIndex {
    Ready {
        index: Arc<dyn PassageIndex>,
        /// An empty directory.
        home: PathBuf,
        /// Dropped after the story.
        guard: Box<dyn Any + Send>,
    },
    Skipped {
        reason: String,
    },
}

impl TestIndex {
    pub fn ready(index: Arc<dyn PassageIndex>, home: PathBuf, guard: impl Any + Send) -> Self {
        Self::Ready { index, home, guard: Box::new(guard) }
    }

    /// Tells the story on this index.
    #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
    pub async fn run<S>(self, story: impl FnOnce(Shelf) -> S)
    where
        S: Future<Output = ()>,
    {
        match self {
            Self::Ready { index, home, guard } => {
                story(Shelf::new(index, home)).await;
                drop(guard);
            }
            Self::Skipped { reason } => eprintln!("skipped: {reason}"),
        }
    }
}

/// An index with what stories do to it.
pub struct Shelf {
    pub index: Arc<dyn PassageIndex>,
    home: PathBuf,
}

impl Shelf {
    /// `home` is a directory for work trees.
    pub fn new(index: Arc<dyn PassageIndex>, home: PathBuf) -> Self {
        Self { index, home }
    }

    /// A new Git work tree.
    pub fn tree(&self, name: &str) -> Tree {
        Tree::init(self.home.join(name))
    }

    pub async fn try_index(&self, scope: &Scope, job: IndexJob) -> Result<IndexStatus, IndexError> {
        self.index.index_repo(scope, job, &Unwatched, CancellationToken::new()).await
    }

    /// Indexes the work tree as it is.
    pub async fn update(&self, scope: &Scope, repo: RepoId, tree: &Tree) -> IndexStatus {
        self.try_index(scope, job(repo, tree)).await.expect("the work tree is indexed")
    }

    /// Lets the index do what it has left for later.
    pub async fn catch_up(&self) {
        self.index.catch_up(CancellationToken::new()).await.expect("the index catches up");
    }

    pub async fn search(&self, scope: &Scope, query: RetrievalQuery) -> Vec<Chunk> {
        self.index.search(scope, &query).await.expect("the index answers").chunks
    }

    /// The paths of what is found, the best first, each once.
    pub async fn paths(&self, scope: &Scope, query: RetrievalQuery) -> Vec<String> {
        let mut paths: Vec<String> = Vec::new();
        for chunk in self.search(scope, query).await {
            if !paths.contains(&chunk.path) {
                paths.push(chunk.path);
            }
        }
        paths
    }
}

/// A run over the work tree as it is.
pub fn job(repo: RepoId, tree: &Tree) -> IndexJob {
    IndexJob {
        repo,
        root: tree.root(),
        commit: None,
        at: Timestamp::from_millis(1_794_766_234_499),
    }
}

/// A search in a repository.
pub fn query(repo: RepoId, text: &str) -> RetrievalQuery {
    RetrievalQuery {
        text: text.to_owned(),
        repo: Some(repo),
        documents: Vec::new(),
        paths: Vec::new(),
        language: None,
        collection: None,
        limit: 20,
    }
}

pub fn repo(number: u128) -> RepoId {
    RepoId::from_uuid(Uuid::from_u128(0x7000_8000_0000_0000_0001_0000 + number))
}

pub fn log(number: u128) -> LogId {
    LogId::from_uuid(Uuid::from_u128(0x7000_8000_0000_0000_0002_0000 + number))
}

/// Someone in the org of that number.
pub fn scope(number: u128) -> Scope {
    let org = OrgId::from_uuid(Uuid::from_u128(0x7000_8000_0000_0000_0003_0000 + number));
    let user = UserId::from_uuid(Uuid::from_u128(0x7000_8000_0000_0000_0004_0000 + number));
    Scope::on_behalf_of(org, user)
}

/// Nobody looks.
pub struct Unwatched;

impl IndexWatch for Unwatched {
    fn progress(&self, _: IndexProgress) {}
}

/// Keeps what it was told.
#[derive(Debug, Default)]
pub struct Watched(Mutex<Vec<IndexProgress>>);

impl Watched {
    pub fn told(&self) -> Vec<IndexProgress> {
        self.0.lock().expect("no watcher panicked").clone()
    }
}

impl IndexWatch for Watched {
    fn progress(&self, progress: IndexProgress) {
        self.0.lock().expect("no watcher panicked").push(progress);
    }
}

/// Makes one test of every story. The argument names an `async fn() -> TestIndex` beside the call.
#[macro_export]
macro_rules! passage_index_tests {
    ($open:ident) => {
        $crate::passage_index_tests! { @modules $open
            repositories {
                a_passage_is_found_with_its_place_and_its_exact_text
                an_unchanged_repository_stays_as_it_is
                a_changed_file_is_found_as_it_is_now
                a_deleted_file_is_found_no_more
                a_renamed_file_is_found_under_its_new_name
                passages_keep_their_ids_when_others_change
                a_commit_is_indexed_as_it_was
                secrets_and_what_git_ignores_are_not_found
                a_removed_repository_is_found_no_more
                tenants_do_not_see_each_other
            }
            runs {
                the_status_says_what_is_there
                a_place_without_git_is_refused
                an_unknown_commit_is_refused
                a_failed_run_leaves_what_was_there
                a_stopped_run_leaves_what_was_there
                a_repository_is_indexed_by_one_run_at_a_time
                progress_is_told_to_the_end
                searches_see_before_or_after_and_never_between
            }
            searches {
                a_definition_comes_first
                words_of_the_path_count
                words_find_identifiers_and_identifiers_find_words
                paths_and_languages_narrow_a_search
                a_query_has_no_syntax
                a_search_without_a_match_finds_nothing
                no_more_than_the_limit_is_found
            }
            documents {
                a_document_is_found_in_its_log_only
                a_document_is_replaced_whole
                documents_are_known_with_their_passages
                documents_are_removed_with_their_log
                a_document_may_be_large
                documents_are_found_beside_a_repository
                documents_of_another_tenant_are_not_found
            }
        }
    };
    (@modules $open:ident $($module:ident { $($story:ident)* })*) => {$(
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    super::$open().await.run($crate::retrieval::$module::$story).await;
                }
            )*
        }
    )*};
}
