//! The contract of the storage port, told to a real PostgreSQL.
//!
//! `scripts/with-postgres` starts one and sets the two variables below. Each story gets a database of its own, copied
//! from a template that the first one migrates.
#![expect(clippy::expect_used, reason = "a database that cannot be made fails its test")]

use std::sync::Arc;

use skein_core::model::Sha256Hash;
use skein_storage::postgres::{OpenError, PostgresStore, migrate};
use skein_testkit::{StoppedClock, TestStore};
use tokio::task::JoinSet;
use tokio_postgres::{Client, Config, NoTls, config::Host};

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
async fn without_an_org_or_with_another_one_the_database_itself_shows_nothing() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let store = database.open(4).await;
    let acme = skein_testkit::World::named(Arc::new(store.clone()), "Acme", 1).await;
    let globex = skein_testkit::World::named(Arc::new(store), "Globex", 2).await;
    acme.running_turn().await;
    let (client, _driver) = connect(&database.app).await;

    for org in ["", &globex.org.id.to_string()] {
        // As an application would that forgot its filter.
        client.execute("SELECT set_config('skein.org', $1, false)", &[&org]).await.expect("set");
        let seen = client
            .query_one(
                "SELECT (SELECT count(*) FROM orgs WHERE id = $1)
                      + (SELECT count(*) FROM users WHERE org_id = $1)
                      + (SELECT count(*) FROM sessions WHERE org_id = $1)
                      + (SELECT count(*) FROM events WHERE org_id = $1)
                      + (SELECT count(*) FROM turns WHERE org_id = $1)
                      + (SELECT count(*) FROM audit WHERE org_id = $1)",
                &[acme.org.id.as_uuid()],
            )
            .await
            .expect("a count");
        assert_eq!(seen.get::<_, i64>(0), 0, "set to {org:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_table_of_tenants_is_left_open() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let (client, _driver) = connect(&database.app).await;

    let open: Vec<String> = client
        .query(
            "SELECT relname::text FROM pg_class
             WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
               AND NOT (relrowsecurity AND relforcerowsecurity) ORDER BY 1",
            &[],
        )
        .await
        .expect("the tables")
        .iter()
        .map(|row| row.get(0))
        .collect();

    assert_eq!(open, ["nodes", "schema_migrations"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_and_audit_rows_cannot_be_changed_by_the_application() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let (client, _driver) = connect(&database.app).await;

    for statement in [
        "UPDATE events SET seq = 1",
        "DELETE FROM events",
        "UPDATE audit SET action = 'x'",
        "DELETE FROM audit",
        "INSERT INTO agent_contexts (id, name, origin, current_version)
         VALUES (gen_random_uuid(), 'x', 'api', 1)",
    ] {
        let refused = client.batch_execute(statement).await.expect_err(statement);
        let code = refused.code().map(|code| code.code().to_owned());
        assert_eq!(code.as_deref(), Some("42501"), "{statement}");
    }
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

const APP_ROLE: &str = "skein_app";

async fn open() -> TestStore {
    let Some(server) = Server::from_environment() else {
        return TestStore::skipped("SKEIN_TEST_POSTGRES is not set; scripts/with-postgres sets it");
    };
    let database = server.fresh_database().await;
    let store = database.open(16).await;
    TestStore::ready(Arc::new(store), database)
}

/// A server that was started for the tests.
struct Server {
    app: String,
    owner: String,
}

impl Server {
    /// `None` where no server was started, except in CI, where that is an error.
    #[expect(
        clippy::disallowed_methods,
        reason = "where the tests' server is comes from their script"
    )]
    fn from_environment() -> Option<Self> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let app = variable("SKEIN_TEST_POSTGRES");
        let owner = variable("SKEIN_TEST_POSTGRES_OWNER");
        let in_ci = variable("CI").is_some_and(|ci| ci == "true");
        assert!(
            !in_ci || (app.is_some() && owner.is_some()),
            "SKEIN_TEST_POSTGRES is not set in CI"
        );
        Some(Self { app: app?, owner: owner? })
    }

    /// A migrated database that nobody else uses.
    async fn fresh_database(&self) -> Database {
        let (client, _driver) = connect(&self.owner).await;
        let template = self.template(&client).await;
        let row = client.query_one("SELECT gen_random_uuid()::text", &[]).await.expect("a name");
        let name = format!("skein_test_{}", row.get::<_, String>(0).replace('-', ""));
        let create = format!("CREATE DATABASE {name} TEMPLATE {template}");
        client.batch_execute(&create).await.expect("a copy of the template");
        Database {
            app: at(&self.app, &name),
            owner: at(&self.owner, &name),
            maintenance: self.owner.clone(),
            name,
        }
    }

    /// Migrated by whoever comes first; the others wait for the lock. Its name changes with the schema.
    async fn template(&self, client: &Client) -> String {
        let steps = migrate::MIGRATIONS.iter().map(|step| step.checksum().to_string());
        let digest = Sha256Hash::of(steps.collect::<String>().as_bytes()).to_string();
        let name = format!("skein_template_{}", &digest[..12]);
        client.execute("SELECT pg_advisory_lock(1)", &[]).await.expect("the lock");
        let found = client
            .query_opt("SELECT 1 FROM pg_database WHERE datname = $1", &[&name])
            .await
            .expect("the databases");
        if found.is_none() {
            let create = format!("CREATE DATABASE {name}");
            client.batch_execute(&create).await.expect("the template");
            migrate::up(&at(&self.owner, &name), APP_ROLE, &StoppedClock::default())
                .await
                .expect("a migrated template");
        }
        client.execute("SELECT pg_advisory_unlock(1)", &[]).await.expect("the lock's end");
        name
    }
}

/// A database of one test, removed after it.
struct Database {
    name: String,
    app: String,
    owner: String,
    /// The owner's login to a database that stays.
    maintenance: String,
}

impl Database {
    async fn open(&self, connections: usize) -> PostgresStore {
        PostgresStore::open(&self.app, connections).await.expect("a store")
    }
}

impl Drop for Database {
    /// The server waits a while for connections that are just closing; what stays anyway goes with the server.
    fn drop(&mut self) {
        let (url, drop) = (self.maintenance.clone(), format!("DROP DATABASE {}", self.name));
        let removal = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let (client, _driver) = connect(&url).await;
                client.batch_execute(&drop).await.ok();
            });
            std::io::Result::Ok(())
        });
        removal.join().ok();
    }
}

/// The same login, in another database.
fn at(url: &str, database: &str) -> String {
    let config: Config = url.parse().expect("a URL");
    let Some(Host::Unix(socket)) = config.get_hosts().first() else {
        panic!("the tests' server listens on a socket");
    };
    let user = config.get_user().expect("a user");
    format!("host={} user={user} dbname={database}", socket.display())
}

/// A connection, and what drives it.
async fn connect(url: &str) -> (Client, JoinSet<()>) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        connection.await.ok();
    });
    (client, driver)
}
