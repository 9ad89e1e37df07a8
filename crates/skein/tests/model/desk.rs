//! A server, its caller, and the provider of its default agent.

use serde_json::{Value, json};
use skein_testkit::responses::ResponsesServer;

use crate::{
    common::{TestHome, TestServer},
    harness::{Api, Reply},
};

const KEY_VARIABLE: &str = "MODEL_TEST_KEY";

pub(crate) const EXECUTE: &str = "/api/ai/agent/execute";

/// The default agent `model` asks `m-config` of the provider.
pub(crate) struct Desk {
    pub(crate) provider: ResponsesServer,
    pub(crate) server: TestServer,
    pub(crate) api: Api,
}

impl Desk {
    pub(crate) async fn new() -> Self {
        Self::with("").await
    }

    /// With more settings: those of the provider first, then other sections.
    pub(crate) async fn with(settings: &str) -> Self {
        Self::on(ResponsesServer::start().await, settings).await
    }

    pub(crate) async fn on(provider: ResponsesServer, settings: &str) -> Self {
        let home = TestHome::with_config(&config(&provider, settings));
        // Not in the file, so that a test can have a `[sessions]` of its own there.
        let environment =
            [(KEY_VARIABLE, provider.key()), ("SKEIN_SESSIONS__DEFAULT_AGENT", "model")];
        let server = TestServer::on_with(home, &environment).await;
        let api = Api::of(&server);
        Self { provider, server, api }
    }

    /// Starts the server again, with other settings behind those of the provider.
    pub(crate) async fn reconfigure(&mut self, settings: &str) {
        self.server.home().write_config(&config(&self.provider, settings));
        self.server.restart().await;
        self.api = Api::of(&self.server);
    }

    pub(crate) async fn execute(&self, body: Value) -> Reply {
        self.api.post(EXECUTE, body).await
    }

    /// Runs an instruction in a session, or in a new one if that is null, and gives back the whole answer.
    pub(crate) async fn ask(&self, session: &Value, instruction: &str) -> Value {
        let mut body = json!({"instruction": instruction});
        if !session.is_null() {
            body["sessionId"] = session.clone();
        }
        self.execute(body).await.expect(200).json()
    }

    /// The turn of an answer.
    pub(crate) async fn turn_of(&self, answer: &Value) -> Value {
        self.api.get(&turn_path(answer)).await.expect(200).json()
    }

    /// What the turn of an answer sent and kept back.
    pub(crate) async fn context_of(&self, answer: &Value) -> Value {
        let path = format!("{}/context", turn_path(answer));
        self.api.get(&path).await.expect(200).json()
    }

    /// The bodies that started a model.
    pub(crate) fn sent(&self) -> Vec<Value> {
        self.provider.dispatches().into_iter().map(|dispatch| dispatch.body).collect()
    }
}

fn config(provider: &ResponsesServer, settings: &str) -> String {
    format!(
        "[providers.model]\nbase_url = \"{}\"\n\
         key_env = \"{KEY_VARIABLE}\"\nmodel = \"m-config\"\n{settings}\n",
        provider.base_url()
    )
}

pub(crate) fn turn_path(answer: &Value) -> String {
    let text = |member: &str| answer[member].as_str().unwrap().to_owned();
    format!("/api/sessions/{}/turns/{}", text("sessionId"), text("turnId"))
}

/// A file that the caller has changed.
pub(crate) fn file(path: &str, content: &str) -> Value {
    json!({"path": path, "content": content, "isTouched": true})
}
