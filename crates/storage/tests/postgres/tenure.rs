//! One server at a time works on a database, and nothing of an earlier one is under way when the next begins.

use std::{sync::Arc, time::Duration};

use skein_core::ports::{ChangeSet, Storage, Store, StoreError};
use skein_storage::postgres::{OpenError, PostgresStore};
use skein_testkit::World;
use tokio::{task::JoinSet, time::sleep};
use tokio_postgres::Client;

use super::server::{Server, connect};

/// The keys of the locks; see `tenure.rs` of the engine.
const SKEIN: i32 = 0x736b_6569;
const SERVER: i32 = 1;
const WORK: i32 = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_server_is_refused_and_told_who_has_the_database() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let (first, tenure) = PostgresStore::open_alone(&database.app, 2).await.expect("the place");

    let second = PostgresStore::open_alone(&database.app, 2).await.err();

    let Some(OpenError::InUse { holder }) = second else { panic!("{second:?}") };
    assert!(holder.starts_with("skein as skein_app from a local socket"), "{holder}");
    first.close().await;
    drop(tenure);
    PostgresStore::open_alone(&database.app, 2).await.expect("the place is free again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_server_waits_for_what_its_predecessor_has_sent() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let (administrator, _driver) = connect(&database.app).await;
    let (left_over, left_over_driver) = connect(&database.app).await;
    let shared = "SELECT pg_advisory_lock_shared($1, $2)";
    left_over.execute(shared, &[&SKEIN, &WORK]).await.expect("a lock that was left");

    let mut starting = JoinSet::new();
    let url = database.app.clone();
    starting.spawn(async move { PostgresStore::open_alone(&url, 2).await.map(drop) });
    waiting_for(&administrator, WORK).await;
    assert!(starting.try_join_next().is_none(), "the new server did not wait");
    drop((left_over, left_over_driver));

    starting.join_next().await.expect("a start").expect("no panic").expect("the place");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_connections_were_ended_takes_its_place_again() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let (store, tenure) = PostgresStore::open_alone(&database.app, 4).await.expect("the place");
    let store: Arc<dyn Storage> = Arc::new(store);
    let world = World::new(Arc::clone(&store)).await;
    let (administrator, _driver) = connect(&database.app).await;

    let work = async {
        for round in 0..5 {
            end_all_who_have_a_lock(&administrator).await;
            // Refused until the place is held again.
            while store.commit(&world.as_owner(), saying(&world, round)).await.is_err() {}
        }
    };
    tokio::select! {
        displaced = tenure.keep() => panic!("{displaced}"),
        () = work => {}
    }

    assert_eq!(world.log(world.session.id).await.len(), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lost_its_place_learns_of_it_and_writes_nothing() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let (store, tenure) = PostgresStore::open_alone(&database.app, 4).await.expect("the place");
    let store: Arc<dyn Storage> = Arc::new(store);
    let world = World::new(Arc::clone(&store)).await;
    let (administrator, _driver) = connect(&database.app).await;
    let mut successor = JoinSet::new();
    let url = database.app.clone();
    successor.spawn(async move { PostgresStore::open_alone(&url, 4).await });
    waiting_for(&administrator, SERVER).await;

    end_all_who_have_a_lock(&administrator).await;
    let (successor, _tenure) =
        successor.join_next().await.expect("a start").expect("no panic").expect("the place");
    let written = store.commit(&world.as_owner(), saying(&world, 0)).await;
    let read = store.find_session(&world.as_owner(), world.session.id).await;

    assert!(matches!(written, Err(StoreError::Unavailable(_))), "{written:?}");
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    assert_eq!(tenure.keep().await.to_string(), "another server has taken over the database");
    successor.commit(&world.as_owner(), saying(&world, 1)).await.expect("the successor's commit");
}

fn saying(world: &World, round: usize) -> ChangeSet {
    let events = vec![world.message(world.session.log, &format!("round {round}"))];
    ChangeSet { events, ..ChangeSet::default() }
}

/// Ends every connection with a lock, and waits until they are gone.
async fn end_all_who_have_a_lock(administrator: &Client) {
    let sql = "SELECT pg_terminate_backend(pid, 5000) FROM
        (SELECT DISTINCT pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database
         WHERE l.locktype = 'advisory' AND l.granted AND d.datname = current_database()) AS holders";
    administrator.execute(sql, &[]).await.expect("the end of the connections");
}

/// Asks until somebody stands in line for the lock.
async fn waiting_for(administrator: &Client, object: i32) {
    let sql = "SELECT 1 FROM pg_locks l JOIN pg_database d ON d.oid = l.database
        WHERE l.locktype = 'advisory' AND NOT l.granted AND d.datname = current_database()
          AND l.classid = $1::int::oid AND l.objid = $2::int::oid";
    while administrator.query(sql, &[&SKEIN, &object]).await.expect("the locks").is_empty() {
        sleep(Duration::from_millis(5)).await;
    }
}
