//! A real PostgreSQL for tests: `scripts/with-postgres` starts one and sets the two variables below. Each test gets a
//! database of its own, copied from a template that the first one migrates.
//!
//! The tests of the `skein` crate use this file too.

use std::io::Write as _;

use skein_core::model::Sha256Hash;
use skein_storage::postgres::{PostgresStore, migrate};
use skein_testkit::StoppedClock;
use tokio::task::JoinSet;
use tokio_postgres::{Client, Config, NoTls, config::Host};

/// The login that the application works with.
pub(crate) const APP_ROLE: &str = "skein_app";

/// A server that was started for the tests.
pub(crate) struct Server {
    pub(crate) app: String,
    pub(crate) owner: String,
}

impl Server {
    /// `None`, and a line that says so, where no server was started; in CI that is an error.
    #[expect(
        clippy::disallowed_methods,
        reason = "where the tests' server is comes from their script"
    )]
    pub(crate) fn from_environment() -> Option<Self> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let app = variable("SKEIN_TEST_POSTGRES");
        let owner = variable("SKEIN_TEST_POSTGRES_OWNER");
        let in_ci = variable("CI").is_some_and(|ci| ci == "true");
        assert!(
            !in_ci || (app.is_some() && owner.is_some()),
            "SKEIN_TEST_POSTGRES is not set in CI"
        );
        let (Some(app), Some(owner)) = (app, owner) else {
            // Past the capture of the test runner, which shows nothing of a test that passes.
            let why = "skipped: no PostgreSQL; scripts/with-postgres starts one for a command";
            writeln!(std::io::stderr(), "{why}").ok();
            return None;
        };
        Some(Self { app, owner })
    }

    /// A migrated database that nobody else uses.
    pub(crate) async fn fresh_database(&self) -> Database {
        let template = self.template().await;
        self.create_database(&format!("TEMPLATE {template}")).await
    }

    /// A database that nobody else uses, made with these words of SQL.
    pub(crate) async fn create_database(&self, options: &str) -> Database {
        let (client, _driver) = connect(&self.owner).await;
        let row = client.query_one("SELECT gen_random_uuid()::text", &[]).await.expect("a name");
        let name = format!("skein_test_{}", row.get::<_, String>(0).replace('-', ""));
        let create = format!("CREATE DATABASE {name} {options}");
        client.batch_execute(&create).await.expect("a database");
        Database {
            app: at(&self.app, &name),
            owner: at(&self.owner, &name),
            maintenance: self.owner.clone(),
            name,
        }
    }

    /// Migrated by whoever comes first; the others wait for the lock. Its name changes with the schema.
    async fn template(&self) -> String {
        let (client, _driver) = connect(&self.owner).await;
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
#[derive(Debug)]
pub(crate) struct Database {
    name: String,
    pub(crate) app: String,
    pub(crate) owner: String,
    /// The owner's login to a database that stays.
    maintenance: String,
}

impl Database {
    pub(crate) async fn open(&self, connections: usize) -> PostgresStore {
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

/// The same login, in another database, in the form that settings have.
fn at(url: &str, database: &str) -> String {
    let config: Config = url.parse().expect("a URL");
    let Some(Host::Unix(socket)) = config.get_hosts().first() else {
        panic!("the tests' server listens on a socket");
    };
    let user = config.get_user().expect("a user");
    let socket = socket.display().to_string().replace('/', "%2F");
    format!("postgres://{user}@{socket}/{database}")
}

/// A connection, and what drives it.
pub(crate) async fn connect(url: &str) -> (Client, JoinSet<()>) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        connection.await.ok();
    });
    (client, driver)
}
