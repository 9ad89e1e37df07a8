//! Sessions in PostgreSQL: migrated by its owner, served by a role that row-level security binds.

use serde_json::json;

use crate::common::{
    TestHome, TestServer,
    postgres::{Database, Server},
};

/// A home whose settings name both logins of a database.
fn home(database: Database) -> TestHome {
    let (app, owner) = (database.app.clone(), database.owner.clone());
    let home = TestHome::in_database(Some(database));
    home.write_config(&format!("[store]\nurl = '{app}'\nmigrate_url = '{owner}'\n"));
    home
}

#[tokio::test]
async fn a_database_is_migrated_by_its_owner_and_served_by_another_role() {
    let Some(server) = Server::from_environment() else { return };
    let home = home(server.create_database("").await);

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
    let Some(home) = TestHome::on_postgres() else { return };
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
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let home = TestHome::with_config(&format!("[store]\nurl = '{}'\n", database.owner));

    let refused = home.run(&["serve", "--listen", "127.0.0.1:0"]);
    let no_owner = home.run(&["migrate", "up"]);

    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("the owner of its tables"), "{}", refused.stderr);
    assert_eq!(no_owner.code, Some(2));
    assert!(no_owner.stderr.contains("migrate_url"), "{}", no_owner.stderr);
}
