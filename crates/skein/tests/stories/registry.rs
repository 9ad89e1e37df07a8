//! Repositories and contexts: what sessions can be bound to.

use std::{fs, path::Path};

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    common::{TestHome, TestServer},
    harness::{AGENTS, Api, Reply, eventually},
    redact::redact,
    start,
};

fn repository(path: &Path) {
    fs::create_dir_all(path.join(".git")).unwrap();
    fs::write(path.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
}

/// A server whose workspace root has one repository, `web`, and one beside it, `outside`.
async fn with_root() -> (TestServer, Api, String) {
    let home = TestHome::with_config(AGENTS);
    repository(&home.file("repos/web"));
    repository(&home.file("outside"));
    fs::create_dir_all(home.file("repos/plain")).unwrap();
    let base = home.path().canonicalize().unwrap().to_str().unwrap().to_owned();
    let root = format!("{base}/repos");
    let server = TestServer::on_with(home, &[("AGENT_WORKSPACE_ROOT", &root)]).await;
    let api = Api::of(&server);
    (server, api, base)
}

#[tokio::test]
async fn a_repository_is_registered_and_a_session_is_bound_to_it() {
    let (_server, api, base) = with_root().await;
    let path = format!("{base}/repos/web");
    let body = json!({"name": "web", "path": path});

    let made = Reply::to(api.keyed("/api/repos", "k1", &body)).await.expect(201);
    let again = Reply::to(api.keyed("/api/repos", "k1", &body)).await.expect(201);
    let taken = api.post("/api/repos", body).await;
    let repo = made.json();
    let id = made.text("id");
    let found = api.get(&format!("/api/repos/{id}")).await.expect(200).json();
    let listed = api.get("/api/repos").await.expect(200).json();
    let session = api.create(json!({"repoId": id})).await;
    let session = api.get(&format!("/api/sessions/{session}")).await.expect(200).json();

    assert_eq!(
        redact(&repo, &[]),
        json!({"id": "ID", "name": "web", "path": path, "createdAt": "TIME"})
    );
    assert_eq!((again.json(), &found), (repo.clone(), &repo));
    assert_eq!(listed, json!({"repos": [repo], "nextCursor": null}));
    assert_eq!(taken.refusal(), (409, "already_exists".to_owned()));
    assert_eq!(session["repoId"], id);
    assert_eq!(session["repository"], json!({"id": id, "name": "web", "path": path}));
}

#[tokio::test]
async fn a_path_out_of_the_root_is_refused_and_kept_on_record() {
    let (_server, api, base) = with_root().await;
    let outside = format!("{base}/repos/../outside");
    let register =
        async |path: &str| api.post("/api/repos", json!({"name": "x", "path": path})).await;

    assert_eq!(register(&outside).await.refusal(), (422, "path_outside_workspace".to_owned()));
    let plain = register(&format!("{base}/repos/plain")).await;
    assert_eq!(plain.refusal(), (422, "not_a_repository".to_owned()));

    let escapes = eventually("the refusal is on record", async || {
        let log = api.get("/api/audit?limit=200").await.expect(200).json();
        let entries = log["entries"].as_array().unwrap().iter();
        let escapes = entries.filter(|entry| entry["action"] == "security.path_escape");
        let escapes: Vec<Value> = escapes.cloned().collect();
        (!escapes.is_empty()).then_some(escapes)
    })
    .await;
    assert_eq!(escapes.len(), 1);
    assert_eq!(escapes[0]["detail"]["path"], outside);
}

#[tokio::test]
async fn without_a_root_no_repository_can_be_registered() {
    let (_server, api) = start().await;

    let refused = api.post("/api/repos", json!({"name": "web", "path": "/srv/web"})).await;

    assert_eq!(refused.refusal(), (422, "path_outside_workspace".to_owned()));
    assert!(refused.text("detail").contains("no workspace root is configured"));
}

#[tokio::test]
async fn contexts_have_versions_and_a_session_shows_the_names_of_its_own() {
    let (_server, api) = start().await;
    let prompt = json!({"name": "terse", "systemPrompt": "Be brief.", "temperature": 0.5});

    let agent = json!({"name": "mine", "agent": "plain", "model": "m1"});
    let agent = api.post("/api/agent-contexts", agent).await.expect(201).json();
    let prompt = api.post("/api/conversation-contexts", prompt).await.expect(201).json();
    let (agent_id, prompt_id) = (agent["id"].as_str().unwrap(), prompt["id"].as_str().unwrap());
    let second = put(&api, "agent-contexts", agent_id, json!({"agent": "slow"})).await;
    let calm =
        put(&api, "conversation-contexts", prompt_id, json!({"systemPrompt": "Be calm."})).await;
    let body = json!({"agentContextId": agent_id, "conversationContextId": prompt_id});
    let session = api.post("/api/sessions", body).await.expect(201).json();
    let listed = api.get("/api/sessions").await.expect(200).json();

    assert_eq!(
        redact(&agent, &[]),
        json!({"id": "ID", "name": "mine", "version": 1, "agent": "plain", "collection": null, "model": "m1", "configured": false, "createdAt": "TIME"})
    );
    assert_eq!(
        redact(&prompt, &[]),
        json!({"id": "ID", "name": "terse", "version": 1, "systemPrompt": "Be brief.", "model": null, "temperature": 0.5, "configured": false, "createdAt": "TIME"})
    );
    assert_eq!(
        (&second["version"], &second["agent"], &second["model"]),
        (&json!(2), &json!("slow"), &Value::Null)
    );
    assert_eq!((&calm["version"], &calm["temperature"]), (&json!(2), &Value::Null));
    for shown in [&session, &listed["sessions"][0]] {
        assert_eq!(shown["agentContextName"], "mine");
        assert_eq!(shown["conversationContextName"], "terse");
    }
    assert_eq!(api.get(&format!("/api/agent-contexts/{agent_id}")).await.json(), second);
}

#[tokio::test]
async fn configured_agents_are_contexts_that_only_the_configuration_changes() {
    let (_server, api) = start().await;

    let listed = api.get("/api/agent-contexts?limit=200").await.expect(200).json();

    let contexts = listed["agentContexts"].as_array().unwrap();
    let slow = contexts.iter().find(|context| context["name"] == "slow").unwrap();
    assert_eq!((&slow["agent"], &slow["configured"]), (&json!("slow"), &json!(true)));
    let path = format!("/api/agent-contexts/{}", slow["id"].as_str().unwrap());
    let change = api.request(Method::PUT, &path).json(&json!({"agent": "plain"}));
    assert_eq!(Reply::to(change).await.refusal(), (403, "forbidden".to_owned()));
}

#[tokio::test]
async fn a_configured_conversation_context_is_there_for_every_organisation() {
    let polite = "[conversation_contexts.polite]\nsystem_prompt = \"Be polite.\"\n";
    let mut server = TestServer::with_config(&format!("{AGENTS}\n{polite}")).await;
    let owner = Api::of(&server);
    let org = owner.post("/api/orgs", json!({"name": "acme"})).await.expect(201).text("id");
    let user = json!({"name": "ada", "role": "admin"});
    let user = owner.post(&format!("/api/orgs/{org}/users"), user).await.expect(201);
    let list = async |api: &Api| {
        let page = api.get("/api/conversation-contexts").await.expect(200).json();
        page["conversationContexts"].clone()
    };

    let here = list(&owner).await;
    let there = list(&owner.with_token(&user.text("token"))).await;
    server.restart().await;
    let (owner, ada) = (Api::of(&server), Api::of(&server).with_token(&user.text("token")));
    let again = (list(&owner).await, list(&ada).await);
    let id = here[0]["id"].as_str().unwrap().to_owned();
    let session = ada.post("/api/sessions", json!({"conversationContextId": id})).await;

    let context = json!({"id": id, "name": "polite", "version": 1, "systemPrompt": "Be polite.", "model": null, "temperature": null, "configured": true, "createdAt": here[0]["createdAt"]});
    assert_eq!((&here, &there), (&json!([context]), &json!([context])));
    assert_eq!(again, (here, there));
    assert_eq!(session.expect(201).text("conversationContextName"), "polite");
    let path = format!("/api/conversation-contexts/{id}");
    for api in [owner, ada] {
        let change = api.request(Method::PUT, &path).json(&json!({"systemPrompt": "Mine."}));
        assert_eq!(Reply::to(change).await.refusal(), (403, "forbidden".to_owned()));
    }
}

#[tokio::test]
async fn what_a_context_says_must_make_sense() {
    let (_server, api) = start().await;
    let prompt =
        |temperature: f64| json!({"name": "t", "systemPrompt": "", "temperature": temperature});
    let unknown = "01890a5d-ac96-774b-bcce-b302099a8057";

    let refusals = [
        api.post("/api/agent-contexts", json!({"name": "x", "agent": "nobody"})).await,
        api.post("/api/conversation-contexts", prompt(2.5)).await,
        api.post("/api/conversation-contexts", json!({"name": "t"})).await,
        api.post("/api/sessions", json!({"agentContextId": unknown})).await,
        api.post("/api/sessions", json!({"conversationContextId": unknown})).await,
        api.get(&format!("/api/conversation-contexts/{unknown}")).await,
    ]
    .map(|reply| reply.refusal());

    let refused = |status: u16, code: &str| (status, code.to_owned());
    assert_eq!(
        refusals,
        [
            refused(422, "unknown_reference"),
            refused(400, "invalid_request"),
            refused(400, "invalid_request"),
            refused(422, "unknown_reference"),
            refused(422, "unknown_reference"),
            refused(404, "not_found"),
        ]
    );
}

async fn put(api: &Api, kind: &str, id: &str, body: Value) -> Value {
    let request = api.request(Method::PUT, &format!("/api/{kind}/{id}")).json(&body);
    Reply::to(request).await.expect(200).json()
}
