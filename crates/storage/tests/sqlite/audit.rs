//! Whatever is done to the audit log past the store is named by the check.

use std::sync::Arc;

use rusqlite::Connection;
use skein_core::model::AuditProblem;
use skein_storage::sqlite::{SqliteOptions, SqliteStore};
use skein_testkit::StoppedClock;

use super::tampering::{TAMPERINGS, log_of_five, verify};

const UNPROTECT: &str = "DROP TRIGGER audit_only_seals; DROP TRIGGER audit_keeps_rows;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_tampering_with_the_log_is_named() {
    for tampering in TAMPERINGS {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("skein.db");
        let store = open(&path);
        let (world, head) = log_of_five(store).await;
        let intruder = Connection::open(&path).expect("a connection");

        intruder.execute_batch(tampering.sql).expect_err(tampering.what);
        assert_eq!(verify(&world, Some(head)).await.problem, None, "{}", tampering.what);
        intruder.execute_batch(UNPROTECT).expect("no triggers");
        intruder.execute_batch(tampering.sql).expect(tampering.what);

        let report = verify(&world, Some(head)).await;
        assert_eq!(report.problem, Some(tampering.found), "{}", tampering.what);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_not_even_text_any_more_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("skein.db");
    let (world, _) = log_of_five(open(&path)).await;
    let intruder = Connection::open(&path).expect("a connection");
    intruder.execute_batch(UNPROTECT).expect("no triggers");

    for (change, number) in [
        ("UPDATE audit SET action = CAST(x'ff' AS TEXT) WHERE chain_no = 4", 4),
        ("UPDATE audit SET actor = x'00' WHERE chain_no = 3", 3),
        ("UPDATE audit SET chain_hash = NULL WHERE chain_no = 2", 2),
    ] {
        intruder.execute_batch(change).expect(change);

        let problem = verify(&world, None).await.problem;
        assert_eq!(problem, Some(AuditProblem::Changed { number }), "{change}");
    }
}

fn open(path: &std::path::Path) -> Arc<SqliteStore> {
    let clock = Arc::new(StoppedClock::default());
    let store = SqliteStore::migrate_and_open(path, SqliteOptions::default(), clock);
    Arc::new(store.expect("an empty store"))
}
