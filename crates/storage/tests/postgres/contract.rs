//! The contract of the storage port, told to a real PostgreSQL.

use std::sync::Arc;

use skein_core::{
    model::{Profile, Session},
    ports::{Counting, SessionFilter, SessionPage, SessionQuery, SessionReads, Visibility},
};
use skein_storage::postgres::{OpenError, PostgresStore, migrate};
use skein_testkit::{StoppedClock, TestStore, World};
use tokio_postgres::Client;

use super::server::{APP_ROLE, Server, connect};

skein_testkit::contract_tests!(open);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_that_row_level_security_does_not_bind_is_refused() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let login = |role: &str| database.owner.replace("skein_owner@", &format!("{role}@"));
    let (superuser, _driver) = connect(&login("postgres")).await;
    superuser
        .batch_execute("CREATE ROLE skein_bypassing LOGIN BYPASSRLS")
        .await
        .expect("a role that is not bound");

    for (role, why) in [
        ("skein_owner", "the owner of its tables"),
        ("skein_bypassing", "allowed to bypass it"),
        ("postgres", "a superuser"),
    ] {
        let refused = PostgresStore::open(&login(role), 2).await.err().expect("a refusal");

        assert!(matches!(refused, OpenError::UnsafeRole { .. }), "{refused}");
        let message =
            format!("the database role {role} is {why}, and row-level security does not bind it");
        assert_eq!(refused.to_string(), message);
    }
    superuser.batch_execute("DROP ROLE skein_bypassing").await.expect("one role less");
    database.open(1).await.check_role().await.expect("a role that is bound");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_in_use_can_be_brought_up_to_date() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let world = World::new(Arc::new(database.open(2).await)).await;
    let draft = world.draft_session();
    let profile = Profile { is_public: true, ..Profile::default() };
    world.open(Session { profile, ..draft }).await;
    world.open(world.draft_session()).await;
    let before = lists(&database.open(2).await, &world).await;

    migrate::down(&database.owner, 1).await.expect("the way down");
    migrate::up(&database.owner, APP_ROLE, &StoppedClock::default()).await.expect("the way up");

    assert_eq!(before.each_ref().map(|page| page.total), [3, 1]);
    assert_eq!(lists(&database.open(2).await, &world).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_step_back_leaves_the_schema_that_was_there_before_it() {
    let Some(server) = Server::from_environment() else { return };
    let (taken_back, made) = (server.fresh_database().await, server.fresh_database().await);
    migrate::down(&made.owner, 0).await.expect("the way down");
    let (made, _driver) = connect(&made.owner).await;
    let mut older = vec![schema(&made).await];
    for step in migrate::MIGRATIONS {
        made.batch_execute(step.up).await.expect(step.name);
        older.push(schema(&made).await);
    }

    for (before, older) in older.iter().enumerate().rev() {
        let before = u32::try_from(before).expect("a version");
        migrate::down(&taken_back.owner, before).await.expect("the way down");
        let (client, _driver) = connect(&taken_back.owner).await;

        assert_eq!(&schema(&client).await, older, "back to {before}");
    }
}

/// Columns, constraints, indexes, policies, triggers and functions.
async fn schema(client: &Client) -> Vec<String> {
    let rows = client
        .query(
            "SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default)
             FROM information_schema.columns WHERE table_schema = 'public'
             UNION ALL
             SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid))
             FROM pg_constraint WHERE connamespace = 'public'::regnamespace
             UNION ALL
             SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
             UNION ALL
             SELECT concat_ws(' ', tablename, policyname, roles, cmd, qual, with_check)
             FROM pg_policies WHERE schemaname = 'public'
             UNION ALL
             SELECT concat_ws(' ', relname, relrowsecurity, relforcerowsecurity)
             FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
             UNION ALL
             SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t WHERE NOT t.tgisinternal
             UNION ALL
             SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
             ORDER BY 1",
            &[],
        )
        .await
        .expect("the schema");
    rows.iter().map(|row| row.get(0)).collect()
}

/// All sessions, and those that the member sees.
async fn lists(store: &PostgresStore, world: &World) -> [SessionPage; 2] {
    let list = async |visibility| {
        let filter = SessionFilter::default();
        let query = SessionQuery {
            visibility,
            filter,
            from: None,
            offset: 0,
            limit: 9,
            counting: Counting::Exact,
        };
        store.list_sessions(&world.as_owner(), &query).await.expect("a page")
    };
    [list(Visibility::WholeOrg).await, list(Visibility::ReadableBy(world.member.id)).await]
}

async fn open() -> TestStore {
    let Some(server) = Server::from_environment() else {
        return TestStore::skipped("SKEIN_TEST_POSTGRES is not set; scripts/with-postgres sets it");
    };
    let database = server.fresh_database().await;
    let store = database.open(16).await;
    TestStore::ready(Arc::new(store), database)
}
