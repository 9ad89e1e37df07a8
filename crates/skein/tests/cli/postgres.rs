//! Sessions in PostgreSQL: migrated by its owner, served by a role that row-level security binds.

use serde_json::json;
use tokio_postgres::{Config, NoTls, config::Host};

use crate::common::{TestHome, TestServer};

/// An empty database of one test; `scripts/with-postgres` ends with the server that it is in.
struct Database {
    app: String,
    owner: String,
}

impl Database {
    /// `None` where no server was started for the tests, except in CI, where that is an error.
    #[expect(
        clippy::disallowed_methods,
        reason = "where the tests' server is comes from their script"
    )]
    async fn create() -> Option<Self> {
        let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
        let app = variable("SKEIN_TEST_POSTGRES");
        let in_ci = variable("CI").is_some_and(|ci| ci == "true");
        assert!(!in_ci || app.is_some(), "SKEIN_TEST_POSTGRES is not set in CI");
        let (app, owner) = (app?, variable("SKEIN_TEST_POSTGRES_OWNER")?);
        let (client, connection) = tokio_postgres::connect(&owner, NoTls).await.unwrap();
        let mut driver = tokio::task::JoinSet::new();
        driver.spawn(connection);
        let row = client.query_one("SELECT gen_random_uuid()::text", &[]).await.unwrap();
        let name = format!("skein_cli_{}", row.get::<_, String>(0).replace('-', ""));
        client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        Some(Self { app: url(&app, &name), owner: url(&owner, &name) })
    }

    fn home(&self) -> TestHome {
        TestHome::with_config(&format!(
            "[store]\nurl = '{}'\nmigrate_url = '{}'\n",
            self.app, self.owner
        ))
    }
}

/// The address of a database in the form that settings have.
fn url(login: &str, database: &str) -> String {
    let config: Config = login.parse().unwrap();
    let Host::Unix(directory) = &config.get_hosts()[0] else { panic!("not a socket: {login}") };
    let directory = directory.to_str().unwrap().replace('/', "%2F");
    format!("postgres://{}@{directory}/{database}", config.get_user().unwrap())
}

#[tokio::test]
async fn a_database_is_migrated_by_its_owner_and_served_by_another_role() {
    let Some(database) = Database::create().await else { return };
    let home = database.home();

    let too_early = home.run(&["serve", "--listen", "127.0.0.1:0"]);
    let migrated = home.run(&["migrate", "up", "--json"]).json();
    let mut server = TestServer::on(home).await;
    let (status, session) = server.post("/api/sessions", json!({"name": "kept"})).await;
    server.terminate().await;
    server.restart().await;
    let (_, listed) = server.get("/api/sessions").await;

    assert_eq!(too_early.code, Some(5), "{}", too_early.stderr);
    assert!(too_early.stderr.contains("skein migrate up"), "{}", too_early.stderr);
    assert!(!migrated["changed"].as_array().unwrap().is_empty());
    assert_eq!(status, 201, "{session}");
    assert_eq!((&listed["total"], &listed["sessions"][0]["id"]), (&json!(1), &session["id"]));
    assert!(!server.home().file("skein.db").exists());
}

#[tokio::test]
async fn the_audit_log_is_sealed_while_the_server_runs_and_when_it_ends() {
    let Some(database) = Database::create().await else { return };
    let home = database.home();
    home.run(&["migrate", "up", "--json"]).json();
    let mut server = TestServer::on(home).await;
    server.post("/api/sessions", json!({})).await;

    let mut entries = json!([]);
    while !entries.to_string().contains("session.created") {
        entries = server.get("/api/audit?limit=200").await.1["entries"].clone();
    }
    server.terminate().await;
    let report = server.home().run(&["audit", "verify", "--json"]).json();
    let head = server.home().run(&["audit", "head"]);

    assert_eq!(report["problem"], json!(null));
    // The check itself is an entry, and waits.
    assert_eq!(report["unsealed"], 1);
    assert_eq!(head.code, Some(0), "{}", head.stderr);
}

#[tokio::test]
async fn a_role_that_row_level_security_does_not_bind_is_refused() {
    let Some(database) = Database::create().await else { return };
    database.home().run(&["migrate", "up", "--json"]).json();
    let home = TestHome::with_config(&format!("[store]\nurl = '{}'\n", database.owner));

    let refused = home.run(&["serve", "--listen", "127.0.0.1:0"]);
    let no_owner = home.run(&["migrate", "up"]);

    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("the owner of its tables"), "{}", refused.stderr);
    assert_eq!(no_owner.code, Some(2));
    assert!(no_owner.stderr.contains("migrate_url"), "{}", no_owner.stderr);
}
