//! The contract of the passage index, told to the embedded engine.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::sync::Arc;

use skein_retrieval::EmbeddedIndex;
use skein_testkit::retrieval::TestIndex;

async fn open() -> TestIndex {
    let home = tempfile::tempdir().unwrap();
    let index = EmbeddedIndex::open(&home.path().join("index.db")).unwrap();
    let trees = home.path().join("trees");
    TestIndex::ready(Arc::new(index), trees, home)
}

skein_testkit::passage_index_tests!(open);
