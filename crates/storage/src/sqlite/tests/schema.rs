//! The file: its schema, its guards, its size, and that it is whole after it was closed.

use std::{path::Path, sync::Arc};

use rusqlite::Connection;
use skein_core::{
    model::Timestamp,
    ports::{ChangeSet, StoreError},
};
use skein_testkit::StoppedClock;

use super::{
    super::{OpenError, SqliteOptions, SqliteStore, migrate},
    Home,
};
use crate::migrations::{MigrateError, MigrationStatus};

fn open(path: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(path, SqliteOptions::default(), Arc::new(StoppedClock::default()))
}

fn tables(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection
        .prepare("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name")
        .unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn the_schema_goes_up_and_down_and_up_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("skein.db");
    let clock = StoppedClock::at(Timestamp::from_millis(5));
    let status = |applied_at| {
        [
            (1, "0001_init"),
            (2, "0002_tenants"),
            (3, "0003_plans"),
            (4, "0004_documents"),
            (5, "0005_residents"),
            (6, "0006_asked"),
            (7, "0007_configured_conversations"),
        ]
        .map(|(version, name)| MigrationStatus {
            version,
            name: name.to_owned(),
            applied_at,
        })
    };

    assert_eq!(migrate::status(&path).unwrap(), status(None));
    assert_eq!(migrate::up(&path, &clock).unwrap().len(), migrate::MIGRATIONS.len());
    let all = tables(&path);
    assert_eq!(migrate::up(&path, &clock).unwrap().len(), 0);
    assert_eq!(migrate::status(&path).unwrap(), status(Some(Timestamp::from_millis(5))));
    assert_eq!(migrate::down(&path, 0).unwrap().len(), migrate::MIGRATIONS.len());
    assert_eq!(tables(&path), ["schema_migrations"]);
    assert_eq!(migrate::up(&path, &clock).unwrap().len(), migrate::MIGRATIONS.len());

    assert_eq!(tables(&path), all);
    open(&path).unwrap();
}

#[test]
fn each_step_back_leaves_the_schema_that_was_there_before_it() {
    for (before, step) in (1_u32..).zip(&migrate::MIGRATIONS[1..]) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("skein.db");
        let mut connection = Connection::open(&path).unwrap();
        let (known, clock) = (migrate::MIGRATIONS, StoppedClock::default());
        migrate::up_on(&mut connection, &known[..before as usize], &clock).unwrap();
        let older = columns(&connection);
        migrate::up_on(&mut connection, &known[..=before as usize], &clock).unwrap();

        connection.execute_batch(step.down).unwrap();

        assert_eq!(columns(&connection), older, "{}", step.name);
    }
}

fn newest() -> u32 {
    migrate::MIGRATIONS.last().unwrap().version
}

/// Every table, index and trigger, with the columns of the tables and indexes.
fn columns(connection: &Connection) -> Vec<String> {
    let mut statement = connection
        .prepare(
            "SELECT s.type || ' ' || s.name || ' ' || coalesce(c.name || ' ' || c.type || ' '
                 || c.\"notnull\" || ' ' || coalesce(c.dflt_value, '') || ' ' || c.pk, '')
             FROM sqlite_schema s LEFT JOIN pragma_table_info(s.name) c
             WHERE s.name NOT LIKE 'sqlite_%' ORDER BY s.name, c.cid",
        )
        .unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_schema_that_is_older_newer_or_changed_is_not_opened() {
    let home = Home::new();
    home.store.close();
    let change = |sql: &str| Connection::open(home.path()).unwrap().execute_batch(sql).unwrap();
    let refusal = || match open(&home.path()) {
        Err(OpenError::Schema(error)) => error,
        other => panic!("{:?}", other.err()),
    };

    let newest = newest();
    let later = newest + 1;
    change(&format!("INSERT INTO schema_migrations VALUES ({later}, 'later', zeroblob(32), 0)"));
    let is_newer = |error| matches!(error, MigrateError::NewerSchema { found, known } if (found, known) == (later, newest));
    assert!(is_newer(refusal()));
    change(&format!("DELETE FROM schema_migrations WHERE version = {later}"));
    open(&home.path()).unwrap();
    change("UPDATE schema_migrations SET checksum = zeroblob(32)");
    assert!(matches!(refusal(), MigrateError::ChangedMigration { version: 1, .. }));
    change("DELETE FROM schema_migrations");
    assert!(matches!(refusal(), MigrateError::Pending { found: 0, known } if known == newest));
}

#[test]
fn a_migration_that_fails_leaves_the_old_schema() {
    let home = Home::new();
    home.store.close();
    let before = tables(&home.path());
    let mut broken = migrate::MIGRATIONS.to_vec();
    broken.push(crate::migrations::Migration {
        version: newest() + 1,
        name: "broken",
        up: "CREATE TABLE half (n INTEGER); CREATE TABLE half (n INTEGER);",
        down: "",
    });

    let mut connection = Connection::open(home.path()).unwrap();
    let failed = migrate::up_on(&mut connection, &broken, &StoppedClock::default());

    assert!(matches!(failed, Err(MigrateError::Engine(_))));
    assert_eq!(tables(&home.path()), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_never_to_change_cannot_be_changed() {
    let home = Home::new();
    let world = home.world().await;
    world.finish(&world.running_turn().await).await;
    let statements = [
        "UPDATE events SET at = 0",
        "DELETE FROM events",
        "UPDATE turns SET errors = x'00'",
        "UPDATE audit SET action = 'nothing'",
        "UPDATE audit SET chain_no = 7",
        "DELETE FROM audit",
        "DELETE FROM logs",
    ];

    for statement in statements {
        let refused = home.execute(statement, []).await;

        assert!(refused.is_err(), "{statement}");
    }
    assert_eq!(world.log(world.session.id).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_store_is_one_file_that_holds_everything() {
    let home = Home::new();
    let world = home.world().await;
    let turn = world.finish(&world.running_turn().await).await;

    home.store.close();
    home.store.close();

    let late = world.store.commit(&world.as_owner(), world.opening(&world.draft_session())).await;
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    let read = world.store.find_session(&world.as_owner(), world.session.id).await;
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    let files: Vec<_> = std::fs::read_dir(home.directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(files, ["skein.db"]);
    let again: Arc<dyn skein_core::ports::Storage> = Arc::new(open(&home.path()).unwrap());
    let found = again.find_turn(&world.as_owner(), world.session.id, turn.id).await.unwrap();
    assert_eq!(found.map(|record| record.turn), Some(turn));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_an_idle_store_is_emptied() {
    let home = Home::new();
    let world = home.world().await;
    let wal = home.directory.path().join("skein.db-wal");
    let wal_bytes = || std::fs::metadata(&wal).map_or(0, |file| file.len());
    world
        .commit(ChangeSet {
            events: vec![world.message(world.session.log, "a")],
            ..ChangeSet::default()
        })
        .await;
    assert_ne!(wal_bytes(), 0);

    // The checkpointer's own clock runs: there is nothing to wait for but the file.
    let mut rounds = 0;
    while wal_bytes() > 0 && rounds < 100 {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        rounds += 1;
    }

    assert_eq!(wal_bytes(), 0);
}
