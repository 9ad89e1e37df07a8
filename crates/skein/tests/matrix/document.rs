//! The operations of the served description.

use reqwest::Method;
use serde_json::Value;

use crate::harness::{Api, Reply};

pub(crate) struct Document {
    pub(crate) operations: Vec<Operation>,
}

#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) id: String,
    pub(crate) method: Method,
    /// With a placeholder of [`crate::table`] for each id, instead of the parameter's name.
    pub(crate) path: String,
    /// Names of query parameters and of members of the body.
    pub(crate) fields: Vec<String>,
    pub(crate) statuses: Vec<u16>,
    pub(crate) needs_token: bool,
}

impl Document {
    pub(crate) async fn served_by(api: &Api) -> Self {
        let served =
            Reply::to(api.anonymous(Method::GET, "/openapi.json")).await.expect(200).json();
        let mut operations = Vec::new();
        for (path, item) in served["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                operations.push(Operation::read(&served, path, method, operation));
            }
        }
        Self { operations }
    }
}

impl Operation {
    fn read(document: &Value, path: &str, method: &str, operation: &Value) -> Self {
        let mut fields = Vec::new();
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            if parameter["in"] == "query" {
                fields.push(parameter["name"].as_str().unwrap().to_owned());
            }
        }
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        let alternatives = body["oneOf"].as_array().into_iter().flatten();
        for schema in alternatives.chain([body]) {
            if let Some(reference) = schema["$ref"].as_str() {
                let schema = document.pointer(reference.trim_start_matches('#')).unwrap();
                let members = schema["properties"].as_object().into_iter().flatten();
                fields.extend(members.map(|(name, _)| name.clone()));
            }
        }
        let statuses = operation["responses"].as_object().unwrap().keys();
        Self {
            id: operation["operationId"].as_str().unwrap().to_owned(),
            method: method.to_uppercase().parse().unwrap(),
            path: placeholders(path),
            fields,
            statuses: statuses.map(|status| status.parse().unwrap()).collect(),
            needs_token: operation.get("security").is_some(),
        }
    }
}

/// What an id in a path is the id of is told by the segment before it.
fn placeholders(path: &str) -> String {
    let mut before = "";
    let mut segments = Vec::new();
    for segment in path.split('/') {
        segments.push(match (segment.starts_with('{'), before) {
            (false, _) => segment,
            (true, "sessions") => "{session}",
            (true, "turns") => "{turn}",
            (true, "payloads") => "{payload}",
            (true, "users") => "{user}",
            (true, "orgs") => "{org}",
            (true, "repos") => "{repo}",
            (true, "agent-contexts") => "{agentContext}",
            (true, "conversation-contexts") => "{conversationContext}",
            (true, "tokens") => "{token}",
            // A turn's questions are numbered.
            (true, "permissions") => "{turn}.1",
            (true, other) => panic!("what is identified after /{other}/ in {path}?"),
        });
        before = segment;
    }
    segments.join("/")
}
