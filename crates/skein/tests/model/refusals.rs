//! What is refused leaves no trace but the audit row.

use serde_json::{Value, json};

use crate::{
    desk::{Desk, EXECUTE, file},
    harness::{Api, eventually},
};

#[tokio::test]
async fn files_that_cannot_be_taken_are_refused_before_anything_is_written() {
    let desk = Desk::new().await;
    let session = desk.api.create(json!({})).await;
    let wrong = json!({"path": "a", "content": "x", "contentHash": "0".repeat(64)});
    let many: Vec<Value> = (0..50_000).map(|n| file(&format!("file-{n}"), "x")).collect();
    let one_too_many: Vec<Value> = (0..201).map(|n| file(&format!("file-{n}"), "x")).collect();
    let cases = [
        (422, "path_outside_workspace", json!([file("/etc/passwd", "x")])),
        (422, "path_outside_workspace", json!([file("src/../../x", "x")])),
        (422, "path_outside_workspace", json!([file("C:\\x", "x")])),
        (400, "invalid_request", json!([file("a", "x"), file("a", "x")])),
        (400, "invalid_request", json!([file("a\0", "x")])),
        (400, "invalid_request", json!([file("src/", "x")])),
        (400, "invalid_request", json!([{"path": "a"}])),
        (400, "invalid_request", json!([{"path": "a", "sizeBytes": 102_400}])),
        (400, "invalid_request", json!([{"path": "a", "content": "x", "sizeBytes": 2}])),
        (422, "hash_mismatch", json!([wrong])),
        (413, "payload_too_large", json!(one_too_many)),
        (413, "payload_too_large", json!(many)),
    ];
    let before = desk.api.last_seq(&session).await;
    let mut kept = Vec::new();

    for (status, code, files) in cases {
        for client in ["browser", "cli", "thick"] {
            let body = json!({"client": client, "instruction": SAID, "activeFiles": files});
            let mut there = body.clone();
            there["sessionId"] = json!(session);

            for body in [body, there] {
                let refused = desk.execute(body).await;
                assert_eq!(refused.refusal(), (status, code.to_owned()), "{client}");
                // What was not understood is a mistake, and nothing that anybody tried.
                kept.extend((status != 400).then(|| refused.text("detail")));
            }
        }
    }
    assert_eq!(desk.api.get("/api/sessions").await.json()["total"], 1);
    assert_eq!(desk.api.last_seq(&session).await, before);
    assert_eq!(desk.provider.requests().len(), 0);
    assert_eq!(audited(&desk, kept.len()).await, kept);
}

#[tokio::test]
async fn references_to_what_is_not_there_are_on_record() {
    let desk = Desk::new().await;
    let session = desk.api.create(json!({})).await;
    let unknown = "01890a5d-ac96-774b-bcce-b302099a8057";
    let references = [
        json!({"agent": "nobody"}),
        json!({"agentContextId": unknown}),
        json!({"conversationContextId": unknown}),
        json!({"repoId": unknown}),
        json!({"sessionId": session, "agent": "x".repeat(10_000)}),
    ];

    let mut kept = Vec::new();
    for mut body in references {
        body["instruction"] = json!(SAID);
        let refused = desk.execute(body).await;
        assert_eq!(refused.refusal(), (422, "unknown_reference".to_owned()));
        kept.push(refused.text("detail").chars().take(256).collect::<String>());
    }

    assert_eq!(audited(&desk, kept.len()).await, kept);
    assert!(kept[1].contains(unknown), "{}", kept[1]);
}

#[tokio::test]
async fn a_caller_who_is_too_fast_fills_no_audit_log() {
    let limits = "[limits]\nrequests_per_second_per_user = 1\nburst = 40\n";
    let desk = Desk::with(limits).await;
    let org = desk.api.post("/api/orgs", json!({"name": "other"})).await.expect(201).text("id");
    let add = async |name: &str| {
        let user = json!({"name": name, "role": "admin"});
        let user = desk.api.post(&format!("/api/orgs/{org}/users"), user).await.expect(201);
        desk.api.with_token(&user.text("token"))
    };
    let (fast, admin) = (add("ada").await, add("bob").await);

    let body = json!({"instruction": SAID, "activeFiles": [file("/etc/passwd", "x")]});
    let mut refused = 0;
    for _ in 0..80 {
        let (status, _) = fast.post(EXECUTE, body.clone()).await.refusal();
        refused += usize::from(status == 422);
    }
    // Refusals are written in their order, so this one comes after whatever there is of the others.
    admin.post(EXECUTE, body).await.expect(422);

    assert!((40..80).contains(&refused), "{refused}");
    assert_eq!(audited_by(&admin, refused + 1).await.len(), refused + 1);
}

/// Of an instruction that must not be found in the audit log.
const SAID: &str = "between us";

/// The reasons of all requests that were refused, in order, once there are as many as expected.
async fn audited(desk: &Desk, count: usize) -> Vec<String> {
    audited_by(&desk.api, count).await
}

async fn audited_by(api: &Api, count: usize) -> Vec<String> {
    let entries = eventually("every refusal is on record", async || {
        // A caller who looks too often has to wait like any other.
        let page = api.get("/api/audit?limit=200").await.json();
        let entries = page["entries"].as_array()?.iter();
        let refused = entries.filter(|entry| entry["action"] == "request.refused");
        let refused: Vec<Value> = refused.cloned().collect();
        (refused.len() >= count).then_some(refused)
    })
    .await;
    let reason = |entry: &Value| {
        assert_eq!(entry["target"], "POST /api/ai/agent/execute");
        assert!(!entry.to_string().contains(SAID), "{entry}");
        entry["detail"]["reason"].as_str().unwrap().to_owned()
    };
    entries.iter().map(reason).collect()
}

#[tokio::test]
async fn instructions_and_settings_that_cannot_be_taken_are_refused() {
    let desk = Desk::new().await;
    let cases = [
        (422, "empty_instruction", json!({"instruction": ""})),
        (422, "empty_instruction", json!({"instruction": " \n\t"})),
        (413, "payload_too_large", json!({"instruction": "x".repeat(1_048_577)})),
        (400, "invalid_request", json!({"instruction": "a\0b"})),
        (400, "invalid_request", json!({"instruction": "x", "temperature": 2.1})),
        (400, "invalid_request", json!({"instruction": "x", "model": ""})),
        (400, "invalid_request", json!({"instruction": "x", "model": " \t"})),
        (400, "unknown_field", json!({"instruction": "x", "files": []})),
    ];

    for (status, code, body) in cases {
        assert_eq!(desk.execute(body).await.refusal(), (status, code.to_owned()));
    }
    assert_eq!(desk.api.get("/api/sessions").await.json()["total"], 0);
    assert_eq!(desk.provider.requests().len(), 0);
}

#[tokio::test]
async fn a_context_names_a_model_or_none() {
    let desk = Desk::new().await;
    let agent = json!({"name": "a", "agent": "model", "model": ""});
    let conversation = json!({"name": "c", "systemPrompt": "Be brief.", "model": " "});

    for (path, body) in
        [("/api/agent-contexts", agent), ("/api/conversation-contexts", conversation)]
    {
        let refused = desk.api.post(path, body).await;
        assert_eq!(refused.json()["field"], "model", "{path}");
        assert_eq!(refused.refusal(), (400, "invalid_request".to_owned()));
    }
}

#[tokio::test]
async fn a_large_file_may_be_told_by_its_size_alone() {
    let desk = Desk::new().await;
    let files = json!([{"path": "large", "sizeBytes": 102_401}]);
    let body = json!({"instruction": "look", "activeFiles": files});

    let answer = desk.execute(body).await.expect(200).json();

    let turn = desk.turn_of(&answer).await;
    let reason = "102401 bytes, the limit is 102400";
    assert_eq!(
        turn["skippedFiles"],
        json!([{"path": "large", "sizeBytes": 102_401, "reason": reason}])
    );
    assert_eq!(turn["activeFileRefs"][0]["contentHash"], Value::Null);
    assert_eq!(
        desk.context_of(&answer).await["files"][0],
        json!({"path": "large", "contentHash": null, "sizeBytes": 102_401, "fate": "too_large", "reason": reason})
    );
}

#[tokio::test]
async fn the_same_instruction_gives_the_same_request_from_every_client() {
    let desk = Desk::new().await;
    let body = json!({"instruction": "look", "workspaceId": "w", "activeFiles": [file("a", "x")]});

    for client in ["browser", "cli", "thick"] {
        let mut body = body.clone();
        body["client"] = json!(client);
        desk.execute(body).await.expect(200);
    }

    let mut sent = desk.sent();
    for body in &mut sent {
        body["metadata"].take();
    }
    assert_eq!(sent[0], sent[1]);
    assert_eq!(sent[1], sent[2]);
}
