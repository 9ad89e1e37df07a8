//! The same commands with and without a server, and the exit codes of their refusals.

use serde_json::{Value, json};

use crate::common::{Ran, TestHome, TestServer};

/// The shape of a value: names and types, not contents.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), shape(value))).collect()
        }
        Value::Array(items) => items.iter().take(1).map(shape).collect(),
        Value::String(_) => "string".into(),
        Value::Number(_) => "number".into(),
        Value::Bool(_) => "bool".into(),
        Value::Null => Value::Null,
    }
}

/// Every command of a session's life, and the shapes of what they print.
fn life(home: &TestHome) -> Vec<Value> {
    let new =
        home.run(&["session", "new", "--name", "first", "--metadata", r#"{"a":1}"#, "--json"]);
    let session = new.json();
    let id = session["id"].as_str().unwrap().to_owned();
    assert_eq!(session["name"], "first");
    assert_eq!(session["interface"], "cli");
    let shown = home.run(&["session", "show", &id, "--json"]).json();
    assert_eq!(shown["id"], session["id"]);
    let list = home.run(&["session", "list", "--json"]).json();
    assert_eq!(list, home.run(&["list-sessions", "--json"]).json());
    assert_eq!(list["total"], 1);
    let turns = home.run(&["turn", "list", &id, "--json"]).json();
    let cancelled = home.run(&["session", "cancel", &id, "--reason", "enough", "--json"]).json();
    assert_eq!(cancelled["state"], "cancelled");
    assert_eq!(cancelled["metadata"]["reason"], "enough");
    let deleted = home.run(&["session", "delete", &id, "--json"]);
    assert_eq!(deleted.code, Some(0), "{}", deleted.stderr);
    assert_eq!(home.run(&["session", "show", &id]).code, Some(3));
    [&session, &shown, &list, &turns, &cancelled].into_iter().map(shape).collect()
}

#[tokio::test]
async fn commands_print_the_same_with_a_server_and_without() {
    let server = TestServer::start().await;

    let over_http = life(server.home());
    let in_process = life(&TestHome::new());

    assert_eq!(over_http, in_process);
}

#[tokio::test]
async fn a_command_prints_the_rest_body() {
    let server = TestServer::start().await;
    server.post("/api/sessions", json!({"name": "one"})).await;

    let printed = server.home().run(&["session", "list", "--json"]).json();

    assert_eq!(printed, server.get("/api/sessions").await.1);
}

#[test]
fn plain_output_is_made_for_pipes() {
    let home = TestHome::new();

    let id = home.run(&["session", "new", "--name", "a \u{1b}[31mred\tname"]).stdout;
    let list = home.run(&["session", "list"]).stdout;

    let id = id.trim();
    let columns: Vec<_> = list.trim_end_matches('\n').split('\t').collect();
    assert_eq!(columns.len(), 6, "{list:?}");
    assert_eq!((columns[0], columns[1], columns[2]), (id, "created", "local"));
    assert_eq!(columns[5], "a  [31mred name");
}

#[test]
fn ids_can_be_shortened_while_they_are_unique() {
    let home = TestHome::new();
    let one = home.run(&["session", "new"]).stdout.trim().to_owned();
    let other = home.run(&["session", "new"]).stdout.trim().to_owned();
    let common = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();

    let found = home.run(&["session", "show", &one[..=common], "--json"]);
    let ambiguous = home.run(&["session", "show", &one[..common]]);
    let unknown = home.run(&["session", "show", "ffff"]);

    assert_eq!(found.json()["id"], one.as_str());
    assert_eq!(ambiguous.code, Some(2));
    assert!(ambiguous.stderr.contains(&one), "{}", ambiguous.stderr);
    assert!(ambiguous.stderr.contains(&other), "{}", ambiguous.stderr);
    assert_eq!(unknown.code, Some(3));
}

#[tokio::test]
async fn refusals_have_their_exit_codes() {
    let server = TestServer::start().await;
    let home = server.home();
    let unknown = "01890a5d-ac96-774b-bcce-b302099a8057";
    let with = |variables: &[(&str, &str)], arguments: &[&str]| {
        Ran::of(home.command(arguments).envs(variables.iter().copied())).code
    };

    assert_eq!(with(&[], &["session", "show", unknown]), Some(3));
    assert_eq!(with(&[], &["session", "list", "--limit", "100000"]), Some(2));
    assert_eq!(with(&[], &["session", "new", "--agent", "nobody"]), Some(2));
    assert_eq!(with(&[("SKEIN_TOKEN", "skein_wrong")], &["session", "list"]), Some(4));
    assert_eq!(with(&[("SKEIN_URL", server.url())], &["session", "list"]), Some(4));
    let nowhere = [("SKEIN_URL", "http://127.0.0.1:1"), ("SKEIN_TOKEN", "skein_x")];
    assert_eq!(with(&nowhere, &["session", "list"]), Some(6));
    let not_a_url = [("SKEIN_URL", "127.0.0.1:1"), ("SKEIN_TOKEN", "skein_x")];
    assert_eq!(with(&not_a_url, &["session", "list"]), Some(2));
    let named = [("SKEIN_URL", server.url()), ("SKEIN_TOKEN", server.token())];
    assert_eq!(with(&named, &["session", "list"]), Some(0));
}

#[tokio::test]
async fn turns_are_shown_by_number_by_id_and_the_last_one_by_itself() {
    let server = TestServer::start().await;
    let body = json!({"instruction": "first"});
    let (_, done) = server.post("/api/ai/agent/execute", body).await;
    let session = done["sessionId"].as_str().unwrap();
    let body = json!({"instruction": "second", "sessionId": session});
    server.post("/api/ai/agent/execute", body).await;
    let turn = |which: &[&str]| {
        let arguments = [&["turn", "show", session], which, &["--json"]].concat();
        server.home().run(&arguments).json()["instructionSummary"].clone()
    };

    let first_id = done["turnId"].as_str().unwrap();
    assert_eq!(turn(&[]), "second");
    assert_eq!(turn(&["last"]), "second");
    assert_eq!(turn(&["1"]), "first");
    assert_eq!(turn(&[first_id]), "first");
    assert_eq!(server.home().run(&["turn", "show", session, "3"]).code, Some(3));
    let list = server.home().run(&["turn", "list", session]).stdout;
    assert_eq!(list.lines().count(), 2, "{list}");
}
