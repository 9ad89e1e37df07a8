//! Two servers and one database: the second is refused, and whoever loses the database ends.

use serde_json::json;
use tokio_postgres::Client;

use crate::{
    common::{Ran, TestHome, TestServer, postgres::connect},
    harness::{Api, eventually},
    verify,
};

#[tokio::test]
async fn a_second_server_on_the_same_database_is_refused_and_the_first_goes_on() {
    let server = TestServer::start().await;
    let other = server.home().beside();

    let serving = run(&other, &["serve", "--listen", "127.0.0.1:0"]).await;
    let asking = run(&other, &["audit", "verify"]).await;

    for refused in [serving, asking] {
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert_eq!(refused.stdout, "");
        assert!(refused.stderr.contains("another Skein works on this database"), "{refused:?}");
        assert!(refused.stderr.contains("hint: stop the other server first"), "{refused:?}");
    }
    Api::of(&server).create(json!({})).await;
}

#[tokio::test]
async fn commands_work_on_the_database_while_no_server_does() {
    let mut server = TestServer::start().await;
    let session = Api::of(&server).create(json!({"name": "kept"})).await;
    server.terminate().await;

    let report = run(server.home(), &["audit", "verify", "--json"]).await.json();
    let listed = run(server.home(), &["session", "list", "--json"]).await.json();

    assert_eq!(report["problem"], json!(null));
    assert_eq!(listed["sessions"][0]["id"], session);
    server.restart().await;
}

#[tokio::test]
async fn a_server_that_loses_its_database_to_another_ends_and_the_other_goes_on() {
    let mut first = TestServer::start().await;
    let session = Api::of(&first).create(json!({})).await;
    let turn = Api::of(&first).prompt(&session, "hello").await;
    Api::of(&first).finished(&session, &turn).await;
    let (administrator, mut driver) = connect(&first.home().database().app).await;

    let taking_over = async {
        eventually("the second server stands in line", async || {
            let waiting = administrator.query(WAITING, &[]).await.unwrap();
            (!waiting.is_empty()).then_some(())
        })
        .await;
        end_all_who_have_a_lock(&administrator).await;
        driver.shutdown().await;
    };
    let (second, ()) = tokio::join!(TestServer::on(first.home().beside()), taking_over);
    let ended = first.exited().await;

    assert_eq!(ended.code(), Some(5));
    assert!(first.log().contains("another server has taken over the database"), "{}", first.log());
    let api = Api::of(&second);
    let turns = verify::settled_session(&api, &session).await;
    assert_eq!(turns.iter().map(|turn| &turn.id).collect::<Vec<_>>(), [&turn]);
    let next = api.prompt(&session, "and on").await;
    assert_eq!(api.finished(&session, &next).await["status"]["key"], "completed");
}

/// Those who wait for an advisory lock in this database.
const WAITING: &str = "SELECT 1 FROM pg_locks l JOIN pg_database d ON d.oid = l.database
    WHERE l.locktype = 'advisory' AND NOT l.granted AND d.datname = current_database()";

/// As when the network breaks between the first server and its database.
async fn end_all_who_have_a_lock(administrator: &Client) {
    let sql = "SELECT pg_terminate_backend(pid, 5000) FROM
        (SELECT DISTINCT pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database
         WHERE l.locktype = 'advisory' AND l.granted AND d.datname = current_database()) AS holders";
    administrator.execute(sql, &[]).await.unwrap();
}

async fn run(home: &TestHome, arguments: &'static [&'static str]) -> Ran {
    let home = home.clone();
    tokio::task::spawn_blocking(move || home.run(arguments)).await.unwrap()
}
