//! A damaged index file is never in the way: it is put aside, or says what it is.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::{
    error::Error,
    fs,
    io::{Seek, SeekFrom, Write},
    path::PathBuf,
    sync::Arc,
};

use rusqlite::Connection;
use skein_core::ports::{PassageIndex, RetrieveError, Retriever};
use skein_retrieval::{EmbeddedIndex, embedded::Condition};
use skein_testkit::retrieval::{Shelf, Tree, query, repo, scope};
use tempfile::TempDir;

/// A home with an index of one repository, which nobody has open.
struct Place {
    home: TempDir,
    tree: Tree,
}

impl Place {
    async fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let index = EmbeddedIndex::open(&home.path().join("index.db")).unwrap();
        let shelf = Shelf::new(Arc::new(index), home.path().join("trees"));
        let tree = shelf.tree("a");
        tree.write("a.txt", "the walrus sings\n").write("b.txt", "the oyster sleeps\n");
        shelf.update(&scope(1), repo(1), &tree).await;
        drop(shelf);
        Self { home, tree }
    }

    fn file(&self) -> PathBuf {
        self.home.path().join("index.db")
    }

    fn aside(&self) -> PathBuf {
        self.home.path().join("index.db.damaged")
    }

    fn open(&self) -> Shelf {
        let index = EmbeddedIndex::open(&self.file()).unwrap();
        Shelf::new(Arc::new(index), self.home.path().join("trees"))
    }

    fn connect(&self) -> Connection {
        Connection::open(self.file()).unwrap()
    }

    fn overwrite(&self, at: u64, bytes: &[u8]) {
        let mut file = fs::File::options().write(true).open(self.file()).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(bytes).unwrap();
    }

    /// Every byte of the first page of these tables is zero.
    fn blank(&self, tables: &[&str]) {
        let db = self.connect();
        let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap();
        let size = number("PRAGMA page_size");
        let root =
            |table| number(&format!("SELECT rootpage FROM sqlite_schema WHERE name = '{table}'"));
        let pages: Vec<u32> = tables.iter().map(root).collect();
        drop(db);
        for page in pages {
            self.overwrite(u64::from((page - 1) * size), &vec![0; size as usize]);
        }
    }

    /// Indexes again what was there, and finds it.
    async fn is_usable(&self) -> bool {
        let shelf = self.open();
        shelf.update(&scope(1), repo(1), &self.tree).await;
        shelf.paths(&scope(1), query(repo(1), "walrus")).await == ["a.txt"]
    }
}

/// The same on every run.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    };
    std::iter::repeat_with(byte).take(length).collect()
}

#[tokio::test]
async fn a_file_that_is_no_database_is_put_aside() {
    let place = Place::new().await;
    fs::write(place.file(), noise(4096)).unwrap();
    fs::write(place.aside(), "an older one").unwrap();

    assert!(place.is_usable().await);

    assert_eq!(fs::read(place.aside()).unwrap(), noise(4096));
}

#[tokio::test]
async fn pages_of_noise_are_seen_when_the_file_is_opened() {
    let place = Place::new().await;
    place.overwrite(4_096, &noise(40_960));

    let condition = EmbeddedIndex::examine(&place.file()).unwrap();

    assert!(matches!(condition, Condition::Damaged(_)), "{condition:?}");
    assert!(place.is_usable().await);
    assert!(place.aside().exists());
}

#[tokio::test]
async fn blank_tables_are_seen_when_the_file_is_opened() {
    for tables in [["chunks", "fts_1_data"], ["files", "corpora"], ["embeddings", "fts_1_docsize"]]
    {
        let place = Place::new().await;
        place.blank(&tables);

        assert!(place.is_usable().await, "{tables:?}");

        assert!(place.aside().exists(), "{tables:?}");
    }
}

#[tokio::test]
async fn emptied_tables_are_seen_when_the_file_is_opened() {
    for table in ["chunks", "files", "fts_1_data", "fts_1_docsize"] {
        let place = Place::new().await;
        place.connect().execute(&format!("DELETE FROM {table}"), []).unwrap();

        assert!(place.is_usable().await, "{table}");

        assert!(place.aside().exists(), "{table}");
    }
}

#[tokio::test]
async fn a_whole_file_is_left_as_it_is() {
    let place = Place::new().await;
    let before = fs::read(place.file()).unwrap();

    let condition = EmbeddedIndex::examine(&place.file()).unwrap();
    let files = fs::read_dir(place.home.path()).unwrap().count();
    let found = place.open().paths(&scope(1), query(repo(1), "walrus")).await;

    assert_eq!((condition, found), (Condition::Whole, vec!["a.txt".to_owned()]));
    assert_eq!(fs::read(place.file()).unwrap(), before);
    assert_eq!(files, 2, "the index and the trees");
    assert!(!place.aside().exists());
}

#[tokio::test]
async fn damage_that_a_search_comes_upon_is_told_and_ends_with_the_next_start() {
    let place = Place::new().await;
    let index = EmbeddedIndex::open(&place.file()).unwrap();
    place.connect().execute("DELETE FROM chunks WHERE text LIKE '%walrus%'", []).unwrap();

    let refused = index.search(&scope(1), &query(repo(1), "walrus")).await;
    drop(index);

    let Err(RetrieveError::Damaged(why)) = refused else { panic!("{refused:?}") };
    assert!(why.starts_with("index.db is damaged; "), "{why}");
    assert!(place.is_usable().await);
    assert!(place.aside().exists());
    assert!(place.is_usable().await, "it is put aside once");
}

#[tokio::test]
async fn a_removal_that_cannot_end_says_so() {
    let place = Place::new().await;
    let db = place.connect();
    let indexes = "FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'files'";
    db.execute_batch(&format!(
        "PRAGMA writable_schema = ON; CREATE TABLE kept AS SELECT * {indexes}; DELETE {indexes};"
    ))
    .unwrap();
    drop(db);
    // Whatever is removed now stays in the indexes.
    let db = place.connect();
    db.execute_batch(
        "PRAGMA writable_schema = ON; DELETE FROM files WHERE path = 'a.txt';
         INSERT INTO sqlite_schema SELECT * FROM kept; DROP TABLE kept;",
    )
    .unwrap();
    drop(db);
    let index = EmbeddedIndex::open(&place.file()).unwrap();
    assert!(!place.aside().exists(), "only the removal comes upon it");

    let refused = index.remove_repo(&scope(1), repo(1)).await.unwrap_err();
    drop(index);

    let why = refused.source().unwrap().to_string();
    assert!(why.starts_with("index.db is damaged; "), "{why}");
    assert!(place.is_usable().await);
}
