//! The contract of the storage port, told to a real PostgreSQL.

use std::sync::Arc;

use skein_storage::postgres::{OpenError, PostgresStore, migrate};
use skein_testkit::{StoppedClock, TestStore};

use super::server::{APP_ROLE, Server};

skein_testkit::contract_tests!(open);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_that_row_level_security_does_not_bind_is_refused() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;

    let opened = PostgresStore::open(&database.owner, 2).await;

    let refused = opened.err().expect("a refusal");
    assert!(matches!(refused, OpenError::UnsafeRole { .. }), "{refused}");
    assert_eq!(
        refused.to_string(),
        "the database role skein_owner is the owner of its tables, and row-level security does not bind it"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_schema_goes_down_and_up_again() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let clock = StoppedClock::default();

    let taken_back = migrate::down(&database.owner, 0).await.expect("the way down");
    let refused = PostgresStore::open(&database.app, 1).await.err();
    let made = migrate::up(&database.owner, APP_ROLE, &clock).await.expect("the way up");
    let again = migrate::up(&database.owner, APP_ROLE, &clock).await.expect("nothing to do");

    assert_eq!(taken_back, migrate::MIGRATIONS.iter().rev().collect::<Vec<_>>());
    assert!(matches!(refused, Some(OpenError::Schema(_))), "{refused:?}");
    assert_eq!(made, migrate::MIGRATIONS.iter().collect::<Vec<_>>());
    assert!(again.is_empty());
    PostgresStore::open(&database.app, 1).await.expect("a store");
}

async fn open() -> TestStore {
    let Some(server) = Server::from_environment() else {
        return TestStore::skipped("SKEIN_TEST_POSTGRES is not set; scripts/with-postgres sets it");
    };
    let database = server.fresh_database().await;
    let store = database.open(16).await;
    TestStore::ready(Arc::new(store), database)
}
