//! The audit log over HTTP: read in pages, checked as a whole.

use serde_json::{Value, json};

use crate::{common::Engine, harness::eventually, redact::redact, start};

#[tokio::test]
async fn what_was_done_is_read_in_pages_and_reading_it_is_an_entry_too() {
    let (_server, api) = start().await;
    api.create(json!({"name": "x"})).await;

    // PostgreSQL shows an entry once it is chained, which is not at once.
    let first = eventually("the first entries can be read", async || {
        let page = api.get("/api/audit?limit=2").await.expect(200).json();
        page["nextCursor"].is_string().then_some(page)
    })
    .await;
    let rest = eventually("the reading of the rest can be read", async || {
        let page = api.get("/api/audit?after=2&limit=200").await.expect(200).json();
        let read = &page["entries"].as_array().unwrap().last()?["detail"];
        (*read == json!({"after": 2, "limit": 200})).then_some(page)
    })
    .await;

    let actions = |page: &Value| -> Vec<String> {
        let entries = page["entries"].as_array().unwrap().iter();
        entries.map(|entry| entry["action"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(actions(&first), ["org.created", "token.created"]);
    assert_eq!(first["nextCursor"], "2");
    let actions = actions(&rest);
    assert_eq!(actions[0], "session.created");
    assert!(actions.len() > 2 && actions[1..].iter().all(|action| action == "audit.read"));
    assert_eq!(rest["nextCursor"], json!(null));
    let read = rest["entries"].as_array().unwrap().last().unwrap();
    let (hash, target) = (read["hash"].as_str().unwrap(), read["target"].as_str().unwrap());
    assert_eq!((hash.len(), target.starts_with("org/")), (64, true));
    assert_eq!(
        redact(read, &[(hash, "HASH"), (target, "ORG")]),
        json!({
            "number": 2 + actions.len(),
            "at": "TIME",
            "actorId": "ID",
            "action": "audit.read",
            "target": "ORG",
            "detail": {"after": 2, "limit": 200},
            "hash": "HASH",
        })
    );
}

#[tokio::test]
async fn a_check_reports_the_head_and_finds_a_log_that_was_cut() {
    let (_server, api) = start().await;
    // The check is an entry itself. SQLite chains it as it is written, PostgreSQL later.
    let unsealed = match Engine::of_this_program() {
        Engine::Sqlite => 0,
        Engine::Postgres => 1,
    };

    let report = eventually("everything before the check is chained", async || {
        let report = api.get("/api/audit/verify").await.expect(200).json();
        (report["unsealed"] == unsealed).then_some(report)
    })
    .await;
    let (number, hash) =
        (report["head"]["number"].as_u64().unwrap(), report["head"]["hash"].clone());
    let hash = hash.as_str().unwrap();
    let same = api.get(&format!("/api/audit/verify?seen={number}:{hash}")).await.expect(200).json();
    let cut = api.get(&format!("/api/audit/verify?seen=99:{hash}")).await.expect(200).json();

    assert_eq!(report["problem"], json!(null));
    assert_eq!(report["intact"], number);
    assert_eq!(same["problem"], json!(null));
    assert_eq!(cut["problem"]["kind"], "truncated");
    let garbage = api.get("/api/audit/verify?seen=7").await;
    assert_eq!(garbage.refusal(), (400, "invalid_filter".to_owned()));
}
