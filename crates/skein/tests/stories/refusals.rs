//! Bad input: each piece gets its code, changes nothing, and says nothing about the inside.

use std::fmt::Write as _;

use reqwest::{Method, RequestBuilder};
use serde_json::json;

use crate::{
    common::TestServer,
    harness::{Api, Reply},
    start,
};

const UNKNOWN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// One request that must be refused. `{s}` and `{t}` in it stand for a session and its finished turn.
struct Case {
    name: String,
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Option<Vec<u8>>,
    expected: (u16, &'static str),
}

/// A session with one finished turn that nothing below may change.
pub(crate) struct World {
    pub(crate) server: TestServer,
    api: Api,
    session: String,
    turn: String,
}

impl World {
    pub(crate) async fn new() -> Self {
        let (server, api) = start().await;
        let session = api.create(json!({"name": "untouched"})).await;
        let turn = api.prompt(&session, "hello").await;
        api.finished(&session, &turn).await;
        Self { server, api, session, turn }
    }

    /// Everything that a request could have changed.
    pub(crate) async fn snapshot(&self) -> String {
        let sessions = self.api.get("/api/sessions").await.expect(200);
        let tokens = self.api.get("/api/tokens").await.expect(200);
        let log = self.api.log(&self.session).await.raw();
        format!("{}\n{}\n{log}", sessions.json(), tokens.json())
    }

    fn request(&self, case: &Case) -> RequestBuilder {
        let fill = |text: &str| text.replace("{s}", &self.session).replace("{t}", &self.turn);
        let mut request = self.api.request(case.method.clone(), &fill(&case.path));
        if let Some(body) = &case.body {
            let body = match std::str::from_utf8(body) {
                Ok(text) => fill(text).into_bytes(),
                Err(_) => body.clone(),
            };
            request = request.body(body);
        }
        for (name, value) in &case.headers {
            request = request.header(*name, value);
        }
        request
    }

    /// The head of a raw request that would create a session.
    pub(crate) fn head(&self, headers: &str) -> String {
        let (address, token) = (self.server.address(), &self.api.token);
        format!(
            "POST /api/sessions HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\n{headers}\r\n"
        )
    }

    /// Sends every case and tells of all that were not refused as they should be.
    async fn check(&self, cases: Vec<Case>) {
        let mut wrong = String::new();
        let mut before = self.snapshot().await;
        for case in &cases {
            let reply = Reply::to(self.request(case)).await;
            let text = String::from_utf8_lossy(&reply.body).into_owned();
            let (status, code) = case.expected;
            let found = serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default();
            if reply.status != status || found["code"] != code {
                let start: String = text.chars().take(300).collect();
                writeln!(
                    wrong,
                    "{}: wanted {status} {code}, got {} {start}",
                    case.name, reply.status
                )
                .unwrap();
            } else {
                reply.refusal();
            }
            if let Some(leak) = self.leak(&text) {
                writeln!(wrong, "{}: the answer shows {leak:?}: {text}", case.name).unwrap();
            }
            let after = self.snapshot().await;
            if after != before {
                writeln!(wrong, "{}: changed something", case.name).unwrap();
                before = after;
            }
        }
        assert!(wrong.is_empty(), "\n{wrong}");
        assert!(!self.server.log().contains("panicked"), "{}", self.server.log());
    }

    /// Something from the inside of the server that an answer must not show.
    fn leak(&self, text: &str) -> Option<String> {
        let home = self.server.home().path().display().to_string();
        let inside = [home.as_str(), "panicked", ".rs:", "/src/", "SQLITE", "sqlite", "rusqlite"];
        inside.into_iter().find(|inside| text.contains(inside)).map(str::to_owned)
    }
}

fn case(
    name: impl Into<String>,
    method: Method,
    path: &str,
    expected: (u16, &'static str),
) -> Case {
    let (path, headers) = (path.to_owned(), Vec::new());
    Case { name: name.into(), method, path, headers, body: None, expected }
}

fn get(path: &str, expected: (u16, &'static str)) -> Case {
    case(format!("GET {path}"), Method::GET, path, expected)
}

fn post(path: &str, body: impl AsRef<[u8]>, expected: (u16, &'static str)) -> Case {
    let shown: String = String::from_utf8_lossy(body.as_ref()).chars().take(60).collect();
    Case {
        body: Some(body.as_ref().to_vec()),
        headers: vec![("content-type", "application/json".to_owned())],
        ..case(format!("POST {path} {shown}"), Method::POST, path, expected)
    }
}

fn patch(body: &str, expected: (u16, &'static str)) -> Case {
    let posted = post("/api/sessions/{s}", body, expected);
    Case { name: format!("PATCH {body}"), method: Method::PATCH, ..posted }
}

fn header(case: Case, name: &'static str, value: &str) -> Case {
    let mut case = case;
    case.name =
        format!("{} with {name}: {}", case.name, value.chars().take(40).collect::<String>());
    case.headers.retain(|(known, _)| *known != name);
    case.headers.push((name, value.to_owned()));
    case
}

const SESSIONS: &str = "/api/sessions";
const PROMPT: &str = "/api/sessions/{s}/prompt";
const EXECUTE: &str = "/api/ai/agent/execute";
const INVALID_JSON: (u16, &str) = (400, "invalid_json");
const INVALID: (u16, &str) = (400, "invalid_request");
const UNKNOWN_FIELD: (u16, &str) = (400, "unknown_field");
const INVALID_ID: (u16, &str) = (400, "invalid_id");
const INVALID_CURSOR: (u16, &str) = (400, "invalid_cursor");
const INVALID_FILTER: (u16, &str) = (400, "invalid_filter");
const NOT_FOUND: (u16, &str) = (404, "not_found");
const EMPTY: (u16, &str) = (422, "empty_instruction");
const TOO_LARGE: (u16, &str) = (413, "payload_too_large");
const MEDIA_TYPE: (u16, &str) = (415, "unsupported_media_type");
const UNKNOWN_REFERENCE: (u16, &str) = (422, "unknown_reference");

#[tokio::test]
async fn bodies_that_are_not_json_are_refused() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_objects = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    let mut cases = Vec::new();
    for body in [
        "{\"name\":",
        "{",
        "",
        "nonsense",
        "{} {}",
        "{\"name\":\"a\"} trailing",
        "{'name':'a'}",
        "{\"name\":\"a\",}",
        "{\"name\":\"\\x\"}",
        "{\"name\":\"line\nbreak\"}",
        "{\"name\":\"\\ud800\"}",
        "{\"name\":\"\\udc00\\ud800\"}",
        "{\"metadata\":{\"a\":\"\\ud800\"}}",
        "{\"metadata\":{\"\\ud800\":1}}",
        "{\"metadata\":{\"a\":NaN}}",
        "{\"metadata\":{\"a\":01}}",
        "\u{feff}{}",
    ] {
        cases.push(post(SESSIONS, body, INVALID_JSON));
    }
    cases.push(post(SESSIONS, b"{\"name\":\"\xff\xfe\"}", INVALID_JSON));
    cases.push(post(SESSIONS, b"{\"name\":\"\xed\xa0\x80\"}", INVALID_JSON));
    cases.push(post(SESSIONS, b"{\"metadata\":{\"\xc3\x28\":1}}", INVALID_JSON));
    cases.push(post(SESSIONS, b"{\"name\":\"\x00\"}", INVALID_JSON));
    cases.push(post(SESSIONS, &deep, INVALID));
    cases.push(post(SESSIONS, format!("{{\"metadata\":{{\"a\":{deep}}}}}"), INVALID_JSON));
    cases.push(post(SESSIONS, format!("{{\"metadata\":{deep_objects}}}"), INVALID_JSON));
    cases.push(post(PROMPT, "{\"text\":\"\\ud83d\"}", INVALID_JSON));
    cases.push(post(PROMPT, b"{\"text\":\"\xc0\x80\"}", INVALID_JSON));
    cases.push(post(EXECUTE, "{\"instruction\":\"\\ud83d\"}", INVALID_JSON));
    cases.push(patch("{\"name\":", INVALID_JSON));

    World::new().await.check(cases).await;
}

#[tokio::test]
async fn duplicate_keys_are_refused_wherever_they_stand() {
    let cases = vec![
        post(SESSIONS, r#"{"name":"a","name":"b"}"#, INVALID_JSON),
        post(SESSIONS, r#"{"name":"a","name":"a"}"#, INVALID_JSON),
        post(SESSIONS, r#"{"metadata":{"a":1,"a":2}}"#, INVALID_JSON),
        post(SESSIONS, r#"{"metadata":{"x":[{"a":1,"\u0061":2}]}}"#, INVALID_JSON),
        post(SESSIONS, r#"{"scope":{"paths":[],"paths":[]}}"#, INVALID_JSON),
        post(PROMPT, r#"{"text":"a","text":"b"}"#, INVALID_JSON),
        post(EXECUTE, r#"{"instruction":"a","instruction":"b"}"#, INVALID_JSON),
        post(
            EXECUTE,
            r#"{"instruction":"a","activeFiles":[{"path":"a","path":"b","content":""}]}"#,
            INVALID_JSON,
        ),
        patch(r#"{"name":"a","name":"b"}"#, INVALID_JSON),
        patch(r#"{"metadata":{"a":{"b":1,"b":1}}}"#, INVALID_JSON),
    ];

    World::new().await.check(cases).await;
}

#[tokio::test]
async fn wrong_types_nul_and_unknown_fields_are_refused() {
    let unknown_id = format!(r#"{{"agentContextId":"{UNKNOWN}"}}"#);
    let cases = vec![
        post(SESSIONS, "[]", INVALID),
        post(SESSIONS, "null", INVALID),
        post(SESSIONS, "\"x\"", INVALID),
        post(SESSIONS, r#"{"name":5}"#, INVALID),
        post(SESSIONS, r#"{"metadata":[]}"#, INVALID),
        post(SESSIONS, r#"{"isPublic":"yes"}"#, INVALID),
        post(SESSIONS, r#"{"interface":"telepathy"}"#, INVALID),
        post(SESSIONS, r#"{"name":"a\u0000b"}"#, INVALID),
        post(SESSIONS, r#"{"metadata":{"a":"\u0000"}}"#, INVALID),
        post(SESSIONS, r#"{"metadata":{"a":{"b\u0000":1}}}"#, INVALID),
        post(SESSIONS, r#"{"workspaceId":"\u0000"}"#, INVALID),
        post(SESSIONS, r#"{"nmae":"x"}"#, UNKNOWN_FIELD),
        post(SESSIONS, r#"{"scope":{"path":[]}}"#, UNKNOWN_FIELD),
        post(SESSIONS, r#"{"id":"01890a5d-ac96-774b-bcce-b302099a8057"}"#, UNKNOWN_FIELD),
        post(SESSIONS, &unknown_id, UNKNOWN_REFERENCE),
        post(SESSIONS, unknown_id.replace("agentContextId", "repoId"), UNKNOWN_REFERENCE),
        post(
            SESSIONS,
            unknown_id.replace("agentContextId", "conversationContextId"),
            UNKNOWN_REFERENCE,
        ),
        post(SESSIONS, r#"{"agentContextId":"nope"}"#, INVALID_ID),
        post(PROMPT, "{}", INVALID),
        post(PROMPT, r#"{"text":null}"#, INVALID),
        post(PROMPT, r#"{"text":["a"]}"#, INVALID),
        post(PROMPT, r#"{"text":"a\u0000"}"#, INVALID),
        post(PROMPT, r#"{"text":"a","onBusy":"perhaps"}"#, INVALID),
        post(PROMPT, r#"{"text":"a","onbusy":"reject"}"#, UNKNOWN_FIELD),
        post(PROMPT, r#"{"text":""}"#, EMPTY),
        post(PROMPT, r#"{"text":" \n\t\u00a0 "}"#, EMPTY),
        post(EXECUTE, r#"{"instruction":""}"#, EMPTY),
        post(EXECUTE, "{}", INVALID),
        post(EXECUTE, r#"{"instruction":"a","client":"fridge"}"#, INVALID),
        post(EXECUTE, r#"{"instruction":"a","mode":"think"}"#, INVALID),
        post(EXECUTE, r#"{"instruction":"a","temperature":9}"#, INVALID),
        post(EXECUTE, r#"{"instruction":"a","sessionId":"x"}"#, INVALID_ID),
        post(EXECUTE, r#"{"instruction":"a","agent":"nobody"}"#, UNKNOWN_REFERENCE),
        post(
            EXECUTE,
            r#"{"instruction":"a","sessionId":"01890a5d-ac96-774b-bcce-b302099a8057"}"#,
            NOT_FOUND,
        ),
        post(EXECUTE, r#"{"instruction":"a","extra":1}"#, UNKNOWN_FIELD),
        post(
            EXECUTE,
            r#"{"instruction":"a","activeFiles":[{"path":"a","content":"","x":1}]}"#,
            UNKNOWN_FIELD,
        ),
        post("/api/sessions/{s}/turns/{t}/rerun", r#"{"instruction":" "}"#, EMPTY),
        post("/api/sessions/{s}/turns/{t}/rerun", r#"{"text":"x"}"#, UNKNOWN_FIELD),
        post("/api/sessions/{s}/complete", r#"{"interrupt":"yes"}"#, INVALID),
        post("/api/sessions/{s}/complete", r#"{"interupt":true}"#, UNKNOWN_FIELD),
        post("/api/sessions/{s}/suspend", r#"{"reason":"\u0000"}"#, INVALID),
        post("/api/sessions/{s}/resume", r#"{"interface":"telepathy"}"#, INVALID),
        patch(r#"{"name":"\u0000"}"#, INVALID),
        patch(r#"{"isPublic":null}"#, INVALID),
        patch(r#"{"state":"completed"}"#, UNKNOWN_FIELD),
        patch(r#"{"revision":7}"#, UNKNOWN_FIELD),
    ];

    World::new().await.check(cases).await;
}

#[tokio::test]
async fn active_files_that_cannot_be_are_refused_and_make_no_turn() {
    let file = |files: String| {
        format!(r#"{{"instruction":"a","sessionId":"{{s}}","activeFiles":[{files}]}}"#)
    };
    let outside = (422, "path_outside_workspace");
    let many: Vec<String> =
        (0..201).map(|n| format!(r#"{{"path":"f{n}","content":""}}"#)).collect();
    let hash = "0".repeat(64);
    let cases = vec![
        post(EXECUTE, file(r#"{"path":"/etc/passwd","content":""}"#.into()), outside),
        post(EXECUTE, file(r#"{"path":"../x","content":""}"#.into()), outside),
        post(EXECUTE, file(r#"{"path":"a/../../x","content":""}"#.into()), outside),
        post(EXECUTE, file(r#"{"path":"..\\x","content":""}"#.into()), outside),
        post(EXECUTE, file(r#"{"path":"","content":""}"#.into()), INVALID),
        post(
            EXECUTE,
            file(r#"{"path":"a","content":""},{"path":"a","content":""}"#.into()),
            INVALID,
        ),
        post(EXECUTE, file(r#"{"path":"a"}"#.into()), INVALID),
        post(
            EXECUTE,
            file(format!(r#"{{"path":"a","content":"x","contentHash":"{hash}"}}"#)),
            (422, "hash_mismatch"),
        ),
        post(EXECUTE, file(r#"{"path":"a","content":"x","contentHash":"zz"}"#.into()), INVALID),
        post(EXECUTE, file(r#"{"path":"a","content":"x","sizeBytes":-1}"#.into()), INVALID),
        post(EXECUTE, file(many.join(",")), TOO_LARGE),
    ];

    World::new().await.check(cases).await;
}

#[tokio::test]
async fn bad_ids_are_refused_and_unknown_ones_not_found() {
    let upper = UNKNOWN.to_uppercase();
    let plain = UNKNOWN.replace('-', "");
    let mut cases = Vec::new();
    for id in ["x", "1", upper.as_str(), plain.as_str(), "..%2Fetc", "%00", "%ff", "null", "ü"] {
        for path in ["", "/messages", "/turns", "/turns/last", "/events"] {
            cases.push(get(&format!("/api/sessions/{id}{path}"), INVALID_ID));
        }
        cases.push(get(&format!("/api/sessions/{{s}}/turns/{id}"), INVALID_ID));
        cases.push(get(&format!("/api/payloads/{id}"), INVALID_ID));
        cases.push(get(&format!("/api/users/{id}/sessions"), INVALID_ID));
        cases.push(case("delete token", Method::DELETE, &format!("/api/tokens/{id}"), INVALID_ID));
        cases.push(case(
            "delete session",
            Method::DELETE,
            &format!("/api/sessions/{id}"),
            INVALID_ID,
        ));
        cases.push(post(&format!("/api/sessions/{id}/prompt"), r#"{"text":"x"}"#, INVALID_ID));
    }
    for path in ["", "/messages", "/turns", "/turns/last", "/events"] {
        cases.push(get(&format!("/api/sessions/{UNKNOWN}{path}"), NOT_FOUND));
    }
    cases.push(get(&format!("/api/sessions/{{s}}/turns/{UNKNOWN}"), NOT_FOUND));
    cases.push(get(&format!("/api/payloads/{UNKNOWN}"), NOT_FOUND));
    cases.push(post(&format!("/api/sessions/{UNKNOWN}/prompt"), r#"{"text":"x"}"#, NOT_FOUND));
    cases.push(post(&format!("/api/sessions/{{s}}/turns/{UNKNOWN}/cancel"), "{}", NOT_FOUND));
    cases.push(post(&format!("/api/sessions/{{s}}/turns/{UNKNOWN}/rerun"), "{}", NOT_FOUND));
    cases.push(case(
        "purge",
        Method::DELETE,
        &format!("/api/sessions/{UNKNOWN}?purge=true"),
        NOT_FOUND,
    ));

    World::new().await.check(cases).await;
}

#[tokio::test]
async fn bad_cursors_filters_and_limits_are_refused() {
    let mut cases = vec![
        get("/api/sessions?status=nope", INVALID_FILTER),
        get("/api/sessions?status=active,nope", INVALID_FILTER),
        get("/api/sessions?state=nope", INVALID_FILTER),
        get("/api/sessions?interface=nope", INVALID_FILTER),
        get("/api/sessions?repoId=nope", INVALID_FILTER),
        get("/api/sessions?cursor=garbage", INVALID_CURSOR),
        get("/api/sessions?cursor=%ff", INVALID),
        get("/api/sessions?nonsense=1", UNKNOWN_FIELD),
        get("/api/sessions/{s}?include=everything", INVALID_FILTER),
        get("/api/sessions/{s}/messages?since=yesterday", INVALID_FILTER),
        get("/api/sessions/{s}/messages?after=x", INVALID_CURSOR),
        get("/api/sessions/{s}/messages?after=-1", INVALID_CURSOR),
        get("/api/sessions/{s}/messages?before=x", INVALID_CURSOR),
        get("/api/sessions/{s}/turns?after=x", INVALID_CURSOR),
        get("/api/sessions/{s}/turns?before=-1", INVALID_CURSOR),
        get("/api/sessions/{s}/events?after=99", INVALID_CURSOR),
        header(get("/api/sessions/{s}/events", INVALID_CURSOR), "last-event-id", "99"),
        header(get("/api/sessions/{s}/events", INVALID_CURSOR), "last-event-id", "x"),
        case("bad purge", Method::DELETE, "/api/sessions/{s}?purge=maybe", INVALID_FILTER),
    ];
    for list in ["/api/sessions", "/api/sessions/{s}/messages", "/api/sessions/{s}/turns"] {
        for limit in ["0", "-1", "201", "x", "1.5", "99999999999999999999"] {
            cases.push(get(&format!("{list}?limit={limit}"), INVALID_FILTER));
        }
    }
    for offset in ["-1", "x"] {
        cases.push(get(&format!("/api/sessions?offset={offset}"), INVALID_FILTER));
    }
    for last in ["0", "-1", "201", "x"] {
        cases.push(get(&format!("/api/sessions/{{s}}/messages?last={last}"), INVALID_FILTER));
    }

    World::new().await.check(cases).await;
}

#[tokio::test]
async fn media_types_keys_preconditions_and_transitions_are_checked() {
    let create = || post(SESSIONS, "{}", MEDIA_TYPE);
    let bad_key = || post(SESSIONS, "{}", (400, "invalid_idempotency_key"));
    let mut without = create();
    without.headers.clear();
    let mut cases = vec![
        without,
        header(create(), "content-type", "text/plain"),
        header(create(), "content-type", "application/x-www-form-urlencoded"),
        header(create(), "content-type", "multipart/form-data; boundary=x"),
        header(create(), "content-type", "application/jsonx"),
        header(bad_key(), "idempotency-key", ""),
        header(bad_key(), "idempotency-key", &"k".repeat(256)),
        header(bad_key(), "idempotency-key", "é"),
        header(patch(r#"{"name":"x"}"#, (412, "precondition_failed")), "if-match", "\"r99\""),
        post("/api/sessions/{s}/resume", "{}", (409, "session_not_suspended")),
        post("/api/sessions/{s}/turns/{t}/cancel", "{}", (409, "turn_already_finished")),
        case("PUT", Method::PUT, "/api/sessions/{s}", (405, "method_not_allowed")),
        case("no route", Method::GET, "/api/sessions/{s}/nothing", NOT_FOUND),
    ];
    cases.push(header(get("/api/sessions", (401, "unauthenticated")), "authorization", "Bearer x"));

    World::new().await.check(cases).await;
}

#[tokio::test]
async fn instructions_and_fields_have_limits() {
    let over = "x".repeat(1024 * 1024 + 1);
    let cases = vec![
        post(PROMPT, format!(r#"{{"text":"{over}"}}"#), TOO_LARGE),
        post(EXECUTE, format!(r#"{{"instruction":"{over}"}}"#), TOO_LARGE),
        post(
            "/api/sessions/{s}/turns/{t}/rerun",
            format!(r#"{{"instruction":"{over}"}}"#),
            TOO_LARGE,
        ),
        post(SESSIONS, format!(r#"{{"name":"{over}"}}"#), TOO_LARGE),
        post(SESSIONS, format!(r#"{{"metadata":{{"a":"{over}"}}}}"#), TOO_LARGE),
    ];
    let world = World::new().await;

    world.check(cases).await;

    let exact = "x".repeat(1024 * 1024);
    let turn = world.api.prompt(&world.session, &exact).await;
    assert_eq!(world.api.finished(&world.session, &turn).await["status"]["key"], "completed");
}
