//! The schema goes up and down, and is left alone while a server runs.

use serde_json::{Value, json};

use crate::common::{TestHome, TestServer};

fn applied(status: &Value) -> Vec<(Value, bool)> {
    let steps = status["migrations"].as_array().unwrap();
    steps.iter().map(|step| (step["version"].clone(), !step["appliedAt"].is_null())).collect()
}

#[test]
fn status_up_and_down_tell_the_same_story() {
    let home = TestHome::new();

    let before = home.run(&["migrate", "status", "--json"]).json();
    let made_a_file = home.file("skein.db").exists();
    let up = home.run(&["migrate", "up", "--json"]).json();
    let again = home.run(&["migrate", "up", "--json"]).json();
    let down = home.run(&["migrate", "down", "--to", "0", "--json"]).json();

    assert!(!made_a_file, "looking must not make a database");
    assert!(applied(&before).iter().all(|(_, made)| !made));
    assert!(applied(&up).iter().all(|(_, made)| *made));
    assert_eq!(up["changed"].as_array().unwrap().len(), applied(&up).len());
    assert_eq!(again["changed"], json!([]));
    assert_eq!(applied(&down), applied(&before));
}

#[test]
fn a_version_that_does_not_exist_is_refused() {
    let home = TestHome::new();
    home.run(&["migrate", "up"]);

    let ran = home.run(&["migrate", "down", "--to", "999"]);

    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("there is no schema version 999"), "{}", ran.stderr);
}

#[tokio::test]
async fn the_schema_of_a_running_server_is_shown_but_not_changed() {
    let server = TestServer::start().await;

    let status = server.home().run(&["migrate", "status", "--json"]).json();
    let refused = server.home().run(&["migrate", "down", "--to", "0"]);

    assert!(applied(&status).iter().all(|(_, made)| *made));
    assert_eq!(refused.code, Some(5));
    assert!(refused.stderr.contains(server.url()), "{}", refused.stderr);
}

#[tokio::test]
async fn a_home_that_was_taken_down_starts_again_with_a_new_token() {
    let mut server = TestServer::start().await;
    let first_token = server.token().to_owned();
    server.terminate().await;

    server.home().run(&["migrate", "down", "--to", "0", "--json"]).json();
    server.restart().await;

    assert_ne!(server.token(), first_token);
    assert_eq!(server.get("/api/whoami").await.0, 200);
}
