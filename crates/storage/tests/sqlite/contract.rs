//! The contract of the storage port, told to SQLite.

use std::sync::Arc;

use skein_storage::sqlite::{SqliteOptions, SqliteStore};
use skein_testkit::{StoppedClock, TestStore};

async fn open() -> TestStore {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("skein.db");
    let clock = Arc::new(StoppedClock::default());
    let store = SqliteStore::migrate_and_open(&path, SqliteOptions::default(), clock)
        .expect("an empty store");
    TestStore::ready(Arc::new(store), directory)
}

skein_testkit::contract_tests!(open);
