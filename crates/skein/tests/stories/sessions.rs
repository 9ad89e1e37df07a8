//! Creating, finding and changing sessions.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Api, Reply},
    redact::redact,
    shapes::{new_session, with},
    start,
};

#[tokio::test]
async fn a_new_session_is_answered_whole_and_found_again() {
    let (_server, api) = start().await;

    let created = api.post("/api/sessions", json!({})).await.expect(201);

    let id = created.text("id");
    assert_eq!(redact(&created.json(), &[(&id, "SESSION")]), new_session());
    assert_eq!(created.header("etag"), Some("\"r1\""));
    assert_eq!(created.header("location"), Some(format!("/api/sessions/{id}").as_str()));
    let found = api.get(&format!("/api/sessions/{id}")).await.expect(200);
    let expected = with(created.json(), json!({"messages": [], "repository": null}));
    assert_eq!(found.json(), expected);
    assert_eq!(found.header("etag"), Some("\"r1\""));
}

#[tokio::test]
async fn every_optional_field_of_a_new_session_is_kept() {
    let (_server, api) = start().await;
    let context = api.post("/api/sessions", json!({})).await.expect(201).text("agentContextId");
    let fields = json!({
        "agentContextId": context,
        "name": "Überschrift 😀",
        "key": "WEB-1",
        "description": "why",
        "category": "bugs",
        "isPublic": true,
        "isDraft": true,
        "workspaceId": "laptop",
        "repo": "web",
        "defaultLanguage": "de",
        "metadata": {"a": {"b": [1, 2.5, null, "x"]}},
        "interface": "cli",
    });

    let mut body = fields.clone();
    body["scope"] = json!({"paths": ["src/**"]});
    let created = api.post("/api/sessions", body).await.expect(201);

    let id = created.text("id");
    let expected = with(new_session(), redact(&fields, &[]));
    let mut actual = redact(&created.json(), &[(&id, "SESSION")]);
    assert_eq!(actual["scope"].take(), json!({"paths": ["src/**"]}));
    assert_eq!(actual, expected);
}

#[tokio::test]
async fn a_session_can_name_its_agent_and_an_unknown_one_is_refused() {
    let (_server, api) = start().await;

    let named = api.post("/api/sessions", json!({"agent": "slow"})).await.expect(201).json();
    let unknown = api.post("/api/sessions", json!({"agent": "nobody"})).await;

    assert_eq!(named["agentContextName"], "slow");
    assert_eq!(unknown.refusal(), (422, "unknown_reference".to_owned()));
}

#[tokio::test]
async fn sessions_are_listed_newest_first_in_pages_that_neither_repeat_nor_skip() {
    let (_server, api) = start().await;
    let mut newest_first = Vec::new();
    for number in 0..5 {
        newest_first.insert(0, api.create(json!({"name": format!("session {number}")})).await);
    }

    let all = list(&api, "").await;
    let by_offset = [
        list(&api, "?limit=2").await,
        list(&api, "?limit=2&offset=2").await,
        list(&api, "?limit=2&offset=4").await,
    ];
    let by_cursor = follow_cursors(&api, "?limit=2").await;

    assert_eq!(ids(&all), newest_first);
    assert_eq!((&all["total"], &all["limit"], &all["offset"]), (&json!(5), &json!(20), &json!(0)));
    assert_eq!((&all["nextCursor"], &all["totalIsLowerBound"]), (&Value::Null, &json!(false)));
    assert_eq!(by_offset.iter().flat_map(ids).collect::<Vec<_>>(), newest_first);
    assert_eq!(by_cursor, newest_first);
}

#[tokio::test]
async fn a_session_created_while_somebody_pages_by_cursor_does_not_shift_the_pages() {
    let (_server, api) = start().await;
    let mut newest_first = Vec::new();
    for _ in 0..4 {
        newest_first.insert(0, api.create(json!({})).await);
    }

    let first = list(&api, "?limit=2").await;
    api.create(json!({})).await;
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = list(&api, &format!("?limit=2&cursor={cursor}")).await;

    assert_eq!([ids(&first), ids(&second)].concat(), newest_first);
}

#[tokio::test]
async fn lists_are_filtered_by_status_state_agent_interface_and_text() {
    let (_server, api) = start().await;
    let plain = api.create(json!({"name": "alpha invoice", "interface": "cli"})).await;
    let slow = api.create(json!({"name": "beta", "agent": "slow"})).await;
    let done = api.create(json!({"name": "gamma"})).await;
    let gone = api.create(json!({"name": "delta"})).await;
    let aside = api.create(json!({"name": "epsilon"})).await;
    api.post(&format!("/api/sessions/{done}/complete"), json!({})).await.expect(200);
    api.delete(&format!("/api/sessions/{gone}")).await.expect(200);
    api.post(&format!("/api/sessions/{aside}/suspend"), json!({})).await.expect(200);

    let expected: [(&str, Vec<&str>); 9] = [
        ("?status=active", vec![&aside, &slow, &plain]),
        ("?status=completed", vec![&done]),
        ("?status=completed,cancelled", vec![&gone, &done]),
        ("?status=error", vec![]),
        ("?state=suspended", vec![&aside]),
        ("?state=created,cancelled", vec![&gone, &slow, &plain]),
        ("?agent=slow", vec![&slow]),
        ("?interface=cli", vec![&plain]),
        ("?q=invoice", vec![&plain]),
    ];
    for (query, wanted) in expected {
        let page = list(&api, query).await;
        assert_eq!(ids(&page), wanted, "{query}");
        assert_eq!(page["total"], wanted.len(), "{query}");
    }
}

#[tokio::test]
async fn the_detail_includes_what_is_asked_for() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let turn = api.prompt(&session, "hello").await;
    api.finished(&session, &turn).await;
    let path = format!("/api/sessions/{session}");

    let default = api.get(&path).await.expect(200).json();
    let turns = api.get(&format!("{path}?include=turns")).await.expect(200).json();
    let nothing = api.get(&format!("{path}?include=")).await.expect(200).json();

    let messages = api.get(&format!("{path}/messages")).await.expect(200).json();
    assert_eq!(default["messages"], messages);
    assert_eq!(default.get("turns"), None);
    assert_eq!(turns["turns"][0]["id"], turn);
    assert_eq!(turns.get("messages"), None);
    let included = ["messages", "turns", "repository"].map(|name| nothing.get(name).is_some());
    assert_eq!(included, [false, false, false]);
}

#[tokio::test]
async fn a_session_tells_of_its_turns() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let turn = api.prompt(&session, "hello").await;
    let finished = api.finished(&session, &turn).await;

    let found = api.get(&format!("/api/sessions/{session}?include=")).await.expect(200);

    let expected = with(
        new_session(),
        json!({
            "state": "active",
            "revision": 2,
            "turnCount": 1,
            "lastTurnStatus": "completed",
            "lastTurnDate": "TIME",
        }),
    );
    assert_eq!(redact(&found.json(), &[(&session, "SESSION")]), expected);
    assert_eq!(found.json()["lastTurnDate"], finished["statusTimeStamp"]);
    assert_eq!(found.header("etag"), Some("\"r2\""));
}

#[tokio::test]
async fn a_patch_replaces_what_it_names_clears_with_null_and_leaves_the_rest() {
    let (_server, api) = start().await;
    let session = api.create(json!({"name": "old", "key": "K", "description": "d"})).await;
    let path = format!("/api/sessions/{session}");
    let before = api.get(&path).await.json();
    let change = json!({
        "name": "new",
        "key": null,
        "category": "c",
        "isPublic": true,
        "isDraft": true,
        "defaultLanguage": "fr",
        "metadata": {"x": 1},
    });

    let patched = api.patch(&path, change.clone()).await.expect(200);

    let mut expected = with(before, change);
    expected["revision"] = json!(2);
    let after = patched.json();
    for moment in ["updatedAt", "lastUpdatedDate", "lastActiveAt"] {
        expected[moment] = after[moment].clone();
    }
    let shown = with(after, json!({"messages": [], "repository": null}));
    assert_eq!(shown, expected);
    assert_eq!(patched.header("etag"), Some("\"r2\""));
    let log = api.log(&session).await;
    assert_eq!(log.types(), ["session.created", "session.updated"]);
}

#[tokio::test]
async fn a_patch_that_changes_nothing_writes_nothing() {
    let (_server, api) = start().await;
    let session = api.create(json!({"name": "same"})).await;
    let path = format!("/api/sessions/{session}");

    let same = api.patch(&path, json!({"name": "same"})).await.expect(200);
    let empty = api.patch(&path, json!({})).await.expect(200);

    assert_eq!([same.header("etag"), empty.header("etag")], [Some("\"r1\""), Some("\"r1\"")]);
    assert_eq!(api.log(&session).await.types(), ["session.created"]);
}

#[tokio::test]
async fn if_match_lets_one_of_two_editors_win() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let path = format!("/api/sessions/{session}");
    let edit = |etag: &'static str, name: &'static str| {
        let request = api.request(Method::PATCH, &path).header("if-match", etag);
        Reply::to(request.json(&json!({"name": name})))
    };

    let first = edit("\"r1\"", "first").await;
    let second = edit("\"r1\"", "second").await;
    let any = edit("*", "any").await;

    assert_eq!((first.status, first.header("etag")), (200, Some("\"r2\"")));
    assert_eq!(second.refusal(), (412, "precondition_failed".to_owned()));
    assert_eq!((any.status, any.json()["name"].as_str()), (200, Some("any")));
}

#[tokio::test]
async fn turns_do_not_change_the_revision_of_an_active_session() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let first = api.prompt(&session, "one").await;
    api.finished(&session, &first).await;
    let before = api.get(&format!("/api/sessions/{session}")).await;

    let second = api.prompt(&session, "two").await;
    api.finished(&session, &second).await;

    let after = api.get(&format!("/api/sessions/{session}")).await;
    assert_eq!(before.header("etag"), after.header("etag"));
}

#[tokio::test]
async fn a_users_sessions_are_those_they_own() {
    let (_server, api) = start().await;
    let session = api.create(json!({})).await;
    let owner = api.get("/api/whoami").await.expect(200).json()["user"]["id"].clone();
    let owner = owner.as_str().unwrap();

    let page = api.get(&format!("/api/users/{owner}/sessions")).await.expect(200).json();
    let stranger = api.get("/api/users/01890a5d-ac96-774b-bcce-b302099a8057/sessions").await;

    assert_eq!(ids(&page), [session]);
    assert_eq!(stranger.refusal(), (404, "not_found".to_owned()));
}

async fn list(api: &Api, query: &str) -> Value {
    api.get(&format!("/api/sessions{query}")).await.expect(200).json()
}

fn ids(page: &Value) -> Vec<String> {
    let sessions = page["sessions"].as_array().unwrap();
    sessions.iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect()
}

async fn follow_cursors(api: &Api, query: &str) -> Vec<String> {
    let mut page = list(api, query).await;
    let mut seen = ids(&page);
    while let Some(cursor) = page["nextCursor"].as_str() {
        page = list(api, &format!("{query}&cursor={cursor}")).await;
        seen.extend(ids(&page));
    }
    seen
}
