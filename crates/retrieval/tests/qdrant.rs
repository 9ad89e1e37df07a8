//! The contract of the passage index, told to the engine that keeps passages in Qdrant.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

mod common;

use std::sync::Arc;

use skein_retrieval::QdrantIndex;
use skein_testkit::retrieval::TestIndex;

async fn open() -> TestIndex {
    let home = tempfile::tempdir().unwrap();
    match common::qdrant(home.path()) {
        Ok(options) => {
            let trees = home.path().join("trees");
            TestIndex::ready(Arc::new(QdrantIndex::new(options).unwrap()), trees, home)
        }
        Err(reason) => TestIndex::Skipped { reason },
    }
}

skein_testkit::passage_index_tests!(open);
