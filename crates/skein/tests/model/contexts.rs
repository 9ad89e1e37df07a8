//! Contexts over REST, and what reaches the provider of them.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    desk::{Desk, EXECUTE, turn_path},
    harness::{Api, Reply},
};

async fn conversation_context(api: &Api, body: Value) -> String {
    api.post("/api/conversation-contexts", body).await.expect(201).text("id")
}

async fn agent_context(api: &Api, body: Value) -> String {
    api.post("/api/agent-contexts", body).await.expect(201).text("id")
}

async fn put(api: &Api, path: &str, body: Value) -> Value {
    Reply::to(api.request(Method::PUT, path).json(&body)).await.expect(200).json()
}

/// What of the settings reached the provider last.
fn settings(desk: &Desk) -> (Value, Value, Value) {
    let sent = desk.sent().pop().unwrap();
    (sent["model"].clone(), sent["temperature"].clone(), sent["instructions"].clone())
}

#[tokio::test]
async fn request_beats_conversation_context_beats_agent_context_beats_configuration() {
    let desk = Desk::new().await;
    let agent = json!({"name": "reviewer", "agent": "model", "model": "m-agent"});
    let agent = agent_context(&desk.api, agent).await;
    let conversation = json!({
        "name": "strict", "systemPrompt": "Be strict.", "model": "m-conversation", "temperature": 0.5,
    });
    let conversation = conversation_context(&desk.api, conversation).await;
    let prompt_only = json!({"name": "plain", "systemPrompt": "Be plain."});
    let prompt_only = conversation_context(&desk.api, prompt_only).await;
    let none = Value::Null;
    let cases = [
        (json!({}), (json!("m-config"), none.clone(), none.clone())),
        (json!({"agentContextId": agent}), (json!("m-agent"), none.clone(), none.clone())),
        (
            json!({"agentContextId": agent, "conversationContextId": prompt_only}),
            (json!("m-agent"), none, json!("Be plain.")),
        ),
        (
            json!({"agentContextId": agent, "conversationContextId": conversation}),
            (json!("m-conversation"), json!(0.5), json!("Be strict.")),
        ),
        (
            json!({
                "agentContextId": agent, "conversationContextId": conversation,
                "model": "m-request", "temperature": 1.5,
            }),
            (json!("m-request"), json!(1.5), json!("Be strict.")),
        ),
    ];

    for (mut body, expected) in cases {
        body["instruction"] = json!("hello");
        let answer = desk.execute(body.clone()).await.expect(200).json();

        assert_eq!(settings(&desk), expected, "{body}");
        assert_eq!(desk.turn_of(&answer).await["openAIModel"], expected.0);
    }
}

#[tokio::test]
async fn a_session_keeps_the_versions_it_started_with_until_it_is_bound_again() {
    let desk = Desk::new().await;
    let agent = json!({"name": "reviewer", "agent": "model", "model": "m-1"});
    let agent = agent_context(&desk.api, agent).await;
    let conversation = json!({"name": "strict", "systemPrompt": "First.", "temperature": 0.1});
    let conversation = conversation_context(&desk.api, conversation).await;
    let other = json!({"name": "other", "systemPrompt": "Other."});
    let other = conversation_context(&desk.api, other).await;
    let ask = async |session: &Value, agent: &str, conversation: &str| {
        let mut body = json!({"instruction": "go on", "conversationContextId": conversation});
        if agent.contains('-') {
            body["agentContextId"] = json!(agent);
        } else {
            body["agent"] = json!(agent);
        }
        if !session.is_null() {
            body["sessionId"] = session.clone();
        }
        let answer = desk.execute(body).await.expect(200).json();
        (answer["sessionId"].clone(), settings(&desk))
    };

    let (session, first) = ask(&Value::Null, &agent, &conversation).await;
    let changed = json!({"agent": "model", "model": "m-2"});
    let changed = put(&desk.api, &format!("/api/agent-contexts/{agent}"), changed).await;
    let path = format!("/api/conversation-contexts/{conversation}");
    put(&desk.api, &path, json!({"systemPrompt": "Second.", "temperature": 0.2})).await;
    desk.ask(&session, "two").await;
    let unnamed = settings(&desk);
    let (_, named_again) = ask(&session, &agent, &conversation).await;
    let (_, elsewhere) = ask(&session, "model", &other).await;
    let (_, back) = ask(&session, &agent, &conversation).await;
    let (_, fresh) = ask(&Value::Null, &agent, &conversation).await;

    assert_eq!((&changed["version"], &changed["model"]), (&json!(2), &json!("m-2")));
    assert_eq!(first, (json!("m-1"), json!(0.1), json!("First.")));
    assert_eq!((&unnamed, &named_again), (&first, &first), "it runs on what it started with");
    assert_eq!(elsewhere, (json!("m-config"), Value::Null, json!("Other.")));
    assert_eq!(back, (json!("m-2"), json!(0.2), json!("Second.")));
    assert_eq!(fresh, back);
    let path = format!("/api/sessions/{}", session.as_str().unwrap());
    let shown = desk.api.get(&path).await.json();
    assert_eq!(shown["agentContextName"], "reviewer");
    assert_eq!(shown["conversationContextName"], "strict");
}

#[tokio::test]
async fn a_session_keeps_the_version_of_a_configured_agent_that_it_started_with() {
    let reviewer = |provider: &str, model: &str| {
        format!(
            "[agents.reviewer]\nruntime = \"responses\"\nprovider = \"{provider}\"\n\
             model = \"{model}\"\n"
        )
    };
    let mut desk = Desk::with(&reviewer("model", "m-1")).await;
    let body = |session: &Value, agent: &str| json!({"instruction": "go on", "sessionId": session, "agent": agent});
    let named = json!({"instruction": "begin", "agent": "reviewer"});
    let first = desk.execute(named.clone()).await.expect(200).json();
    let session = &first["sessionId"];
    // The same server by another name: a chain of one is not continued by the other.
    let elsewhere = format!(
        "[providers.other]\nbase_url = \"{}\"\nkey_env = \"MODEL_TEST_KEY\"\n{}",
        desk.provider.base_url(),
        reviewer("other", "m-2")
    );

    desk.reconfigure(&elsewhere).await;
    let unnamed = desk.ask(session, "go on").await;
    let unnamed = (unnamed["context"]["chain"].clone(), settings(&desk).0);
    let again = desk.execute(body(session, "reviewer")).await.expect(200).json();
    let again = (again["context"]["chain"].clone(), settings(&desk).0);
    desk.execute(named).await.expect(200);
    let fresh = settings(&desk).0;
    desk.execute(body(session, "model")).await.expect(200);
    desk.execute(body(session, "reviewer")).await.expect(200);
    let back = settings(&desk).0;

    assert_eq!(unnamed, (json!("continue"), json!("m-1")), "it runs on what it started with");
    assert_eq!(again, unnamed);
    assert_eq!((fresh, back), (json!("m-2"), json!("m-2")));
}

#[tokio::test]
async fn a_session_whose_configured_agent_is_gone_says_so() {
    let agent = "[agents.reviewer]\nruntime = \"responses\"\nprovider = \"model\"\n";
    let mut desk = Desk::with(agent).await;
    let named = json!({"instruction": "begin", "agent": "reviewer"});
    let first = desk.execute(named).await.expect(200).json();

    desk.reconfigure("").await;
    let after = desk.ask(&first["sessionId"], "go on").await;

    assert_eq!(
        (&after["kind"], &after["errorCode"]),
        (&json!("error"), &json!("agent_unavailable"))
    );
    assert_eq!(desk.sent().len(), 1);
}

#[tokio::test]
async fn conversation_contexts_are_made_in_the_configuration_too() {
    let strict = |prompt: &str, more: &str| {
        format!("[conversation_contexts.strict]\nsystem_prompt = \"{prompt}\"\n{more}\n")
    };
    let mut desk = Desk::with(&strict("First.", "model = \"m-1\"\ntemperature = 0.1")).await;
    let own = json!({"name": "strict", "systemPrompt": "Ours."});
    conversation_context(&desk.api, own).await;
    let configured = async |api: &Api| {
        let page = api.get("/api/conversation-contexts").await.expect(200).json();
        let contexts = page["conversationContexts"].as_array().unwrap().clone();
        contexts.into_iter().find(|context| context["configured"] == true)
    };
    let first = configured(&desk.api).await.unwrap();
    let path = format!("/api/conversation-contexts/{}", first["id"].as_str().unwrap());
    let named = json!({"instruction": "begin", "conversationContextId": first["id"]});
    let answer = desk.execute(named.clone()).await.expect(200).json();
    let at_first = settings(&desk);
    let change = desk.api.request(Method::PUT, &path).json(&json!({"systemPrompt": "Mine."}));
    let changed = Reply::to(change).await;

    desk.reconfigure(&strict("Second.", "")).await;
    let second = configured(&desk.api).await.unwrap();
    desk.ask(&answer["sessionId"], "go on").await;
    let kept = settings(&desk);
    desk.execute(named.clone()).await.expect(200);
    let fresh = settings(&desk);
    desk.reconfigure("").await;
    let gone = configured(&desk.api).await;
    let refused = desk.execute(named).await;
    desk.ask(&answer["sessionId"], "go on").await;

    assert_eq!(
        (&first["name"], &first["version"], &first["systemPrompt"], &first["model"]),
        (&json!("strict"), &json!(1), &json!("First."), &json!("m-1"))
    );
    assert_eq!(at_first, (json!("m-1"), json!(0.1), json!("First.")));
    assert_eq!(changed.refusal(), (403, "forbidden".to_owned()));
    assert_eq!((&second["id"], &second["version"]), (&first["id"], &json!(2)));
    assert_eq!(kept, at_first, "it runs on what it started with");
    assert_eq!(fresh, (json!("m-config"), Value::Null, json!("Second.")));
    assert_eq!((gone, refused.refusal()), (None, (422, "unknown_reference".to_owned())));
    assert_eq!(settings(&desk), at_first);
}

#[tokio::test]
async fn a_context_that_is_not_there_is_refused_and_leaves_nothing() {
    let desk = Desk::new().await;
    let unknown = "01890a5d-ac96-774b-bcce-b302099a8057";

    for body in [
        json!({"instruction": "x", "agentContextId": unknown}),
        json!({"instruction": "x", "conversationContextId": unknown}),
        json!({"instruction": "x", "agent": "nobody"}),
    ] {
        let refused = desk.execute(body.clone()).await;
        let planned = desk.api.post("/api/ai/agent/plan", body).await;

        assert_eq!(refused.refusal(), (422, "unknown_reference".to_owned()));
        assert_eq!(planned.refusal(), (422, "unknown_reference".to_owned()));
    }
    let body = json!({"name": "x", "agent": "nobody"});
    let refused = desk.api.post("/api/agent-contexts", body).await;
    assert_eq!(refused.refusal(), (422, "unknown_reference".to_owned()));
    assert_eq!(desk.api.get("/api/sessions").await.json()["total"], 0);
    assert_eq!(desk.provider.requests().len(), 0);
}

#[tokio::test]
async fn a_context_of_another_organisation_is_not_there() {
    let desk = Desk::new().await;
    let context = json!({"name": "ours", "systemPrompt": "Secret."});
    let context = conversation_context(&desk.api, context).await;
    let agent = json!({"name": "ours", "agent": "model"});
    let agent = agent_context(&desk.api, agent).await;
    let org = desk.api.post("/api/orgs", json!({"name": "other"})).await.expect(201).text("id");
    let user = json!({"name": "ada", "role": "admin"});
    let user = desk.api.post(&format!("/api/orgs/{org}/users"), user).await.expect(201);
    let other = desk.api.with_token(&user.text("token"));

    for body in [
        json!({"instruction": "x", "conversationContextId": context}),
        json!({"instruction": "x", "agentContextId": agent}),
        json!({"instruction": "x", "agent": "ours"}),
    ] {
        let refused = other.post(EXECUTE, body).await;

        assert_eq!(refused.refusal(), (422, "unknown_reference".to_owned()));
    }
    assert_eq!(desk.provider.requests().len(), 0);
}

#[tokio::test]
async fn a_rerun_names_what_its_request_named_and_takes_the_rest_from_the_contexts_of_now() {
    let desk = Desk::new().await;
    let context = async |name: &str, temperature: f64| {
        let body = json!({
            "name": name, "systemPrompt": name, "model": format!("m-{name}"), "temperature": temperature,
        });
        conversation_context(&desk.api, body).await
    };
    let (one, two) = (context("one", 0.1).await, context("two", 0.9).await);
    let plain = json!({"instruction": "first", "conversationContextId": one});
    let plain = desk.execute(plain).await.expect(200).json();
    let session = plain["sessionId"].as_str().unwrap();
    let named = json!({"instruction": "second", "sessionId": session, "model": "m-named"});
    let named = desk.execute(named).await.expect(200).json();
    let rebound =
        json!({"instruction": "third", "sessionId": session, "conversationContextId": two});
    let last = desk.execute(rebound).await.expect(200).json();
    let rerun = async |answer: &Value| {
        let path = format!("{}/rerun", turn_path(answer));
        let turn = desk.api.post(&path, json!({})).await.expect(202).text("turnId");
        let turn = desk.api.finished(session, &turn).await;
        (turn, settings(&desk))
    };

    let (turn, now) = rerun(&plain).await;
    let (_, asked_for) = rerun(&named).await;

    assert_eq!(now, (json!("m-two"), json!(0.9), json!("two")));
    let last = desk.turn_of(&last).await["openAIResponseId"].clone();
    assert_eq!(turn["previousOpenAIResponseId"], last, "it goes on from the last completed turn");
    assert_eq!(asked_for, (json!("m-named"), json!(0.9), json!("two")));
}
