//! What is sent to each operation: requests that are valid but for whom the ids belong to.

use serde_json::{Value, json};

use crate::document::{Document, Operation};

/// What can be named in a request; `{name}` stands for one of it.
pub(crate) const KINDS: [&str; 15] = [
    "session",
    "turn",
    "payload",
    "user",
    "org",
    "repo",
    "agentContext",
    "conversationContext",
    "token",
    "repoName",
    "repoPath",
    "agentName",
    "sessionName",
    "key",
    "cursor",
];

/// Kinds that stand for something stored, which a path or a body refers to.
pub(crate) const IDS: [&str; 9] = [
    "session",
    "turn",
    "payload",
    "user",
    "org",
    "repo",
    "agentContext",
    "conversationContext",
    "token",
];

/// Fields that look like ids and name nothing that is stored on its own.
const LABELS: [&str; 1] = ["workspaceId"];

/// One request, with placeholders.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) query: &'static str,
    pub(crate) body: Option<Value>,
    pub(crate) headers: &'static [(&'static str, &'static str)],
}

/// What the table lacks: operations without requests, and id fields that no request of their operation fills.
pub(crate) fn gaps(document: &Document) -> Vec<String> {
    let mut gaps = Vec::new();
    for operation in &document.operations {
        let requests = requests(operation);
        if requests.is_empty() {
            gaps.push(format!("no request of {}", operation.id));
        }
        let sent: String = requests.iter().map(|request| format!("{request:?}")).collect();
        for field in operation.fields.iter().filter(|field| names_something(field)) {
            if !sent.contains(&format!("{field}=")) && !sent.contains(&format!("\"{field}\"")) {
                gaps.push(format!("no request of {} with {field}", operation.id));
            }
        }
    }
    gaps
}

fn names_something(field: &str) -> bool {
    let is_name = ["cursor", "repo", "agent", "q"].contains(&field);
    (is_name || field.ends_with("Id")) && !LABELS.contains(&field)
}

fn plain() -> Request {
    Request { query: "", body: None, headers: &[] }
}

fn query(query: &'static str) -> Request {
    Request { query, ..plain() }
}

fn body(body: Value) -> Request {
    Request { body: Some(body), ..plain() }
}

fn keyed(value: Value) -> Request {
    Request { headers: &[("idempotency-key", "{key}")], ..body(value) }
}

/// The requests of an operation; none for one that the table does not know.
pub(crate) fn requests(operation: &Operation) -> Vec<Request> {
    match operation.id.as_str() {
        "healthz"
        | "livez"
        | "readyz"
        | "metrics"
        | "whoami"
        | "get_agent_context"
        | "get_conversation_context"
        | "get_repo"
        | "index_status"
        | "remove_index"
        | "list_permissions"
        | "list_turns"
        | "last_turn"
        | "get_turn"
        | "turn_context"
        | "summarize_turn"
        | "revoke_token"
        | "get_user" => {
            vec![plain()]
        }
        "list_audit" => vec![plain(), query("limit=200")],
        "verify_audit" => vec![plain()],
        "list_agent_contexts" => vec![plain(), query("cursor={agentContext}")],
        "list_conversation_contexts" => vec![plain(), query("cursor={conversationContext}")],
        "list_repos" => vec![plain(), query("cursor={repo}")],
        "search_repo" => vec![query("q={sessionName}"), query("q=x&path=src&language=rust")],
        "list_documents" => vec![plain(), query("cursor={session}")],
        "list_tokens" => vec![plain(), query("cursor={token}")],
        "list_users" => vec![plain(), query("cursor={user}")],
        "get_payload" => vec![
            plain(),
            Request { headers: &[("if-none-match", "*")], ..plain() },
            Request { headers: &[("range", "bytes=0-3")], ..plain() },
        ],
        "follow_events" => vec![
            query("after=0"),
            query("after=9007199254740991"),
            Request { headers: &[("last-event-id", "1")], ..plain() },
        ],
        "list_messages" => vec![plain(), query("last=5"), query("after=0&limit=5")],
        "list_sessions" | "list_user_sessions" => vec![
            plain(),
            query("repoId={repo}"),
            query("agent={agentName}"),
            query("q={sessionName}"),
            query("cursor={cursor}"),
        ],
        "get_session" => vec![plain(), query("include=messages,turns,repository")],
        "delete_session" => vec![plain(), query("reason=x"), query("purge=true")],
        _ => changes(operation),
    }
}

/// The requests that have a body.
fn changes(operation: &Operation) -> Vec<Request> {
    match operation.id.as_str() {
        "create_agent_context" => vec![
            body(json!({"name": "{agentName}", "agent": "plain"})),
            body(json!({"name": "made", "agent": "{agentName}"})),
            keyed(json!({"name": "with {key}", "agent": "plain"})),
        ],
        "change_agent_context" => {
            vec![body(json!({"agent": "plain"})), body(json!({"agent": "{agentName}"}))]
        }
        "create_conversation_context" => vec![
            body(json!({"name": "made", "systemPrompt": "x"})),
            keyed(json!({"name": "with {key}", "systemPrompt": "x"})),
        ],
        "change_conversation_context" => vec![body(json!({"systemPrompt": "x"}))],
        "create_org" => vec![body(json!({"name": "made"}))],
        "create_user" => vec![
            body(json!({"name": "made", "role": "admin"})),
            body(json!({"name": "made", "role": "viewer"})),
        ],
        "edit_user" => vec![body(json!({"disabled": true})), body(json!({"role": "viewer"}))],
        "create_repo" => vec![
            body(json!({"name": "{repoName}", "path": "/nowhere"})),
            keyed(json!({"name": "with {key}", "path": "{repoPath}"})),
        ],
        "create_token" => vec![
            body(json!({"name": "made", "role": "viewer", "userId": "{user}"})),
            body(json!({"name": "made", "role": "viewer", "sessionId": "{session}"})),
            body(
                json!({"name": "made", "role": "admin", "userId": "{user}", "sessionId": "{session}"}),
            ),
            keyed(json!({"name": "made", "role": "viewer"})),
        ],
        "create_session" => vec![
            body(json!({"repoId": "{repo}"})),
            body(json!({"repo": "{repoName}"})),
            body(json!({"agent": "{agentName}"})),
            body(json!({"agentContextId": "{agentContext}"})),
            body(json!({"conversationContextId": "{conversationContext}"})),
            keyed(json!({"name": "made"})),
        ],
        "index_repo" => vec![body(json!({})), body(json!({"commit": "0123456789"}))],
        "answer_permission" => vec![body(json!({"optionId": "x"})), body(json!({"cancel": true}))],
        "add_document" => vec![body(json!({"name": "made", "content": "x"}))],
        "plan" | "plan_turn" => vec![
            body(json!({"instruction": "x", "sessionId": "{session}"})),
            body(json!({"instruction": "x", "repoId": "{repo}"})),
            body(json!({"instruction": "x", "repo": "{repoName}"})),
            body(json!({"instruction": "x", "agent": "{agentName}"})),
            body(json!({"instruction": "x", "agentContextId": "{agentContext}"})),
            body(json!({"instruction": "x", "conversationContextId": "{conversationContext}"})),
        ],
        "execute" => vec![
            body(json!({"instruction": "x", "sessionId": "{session}"})),
            Request {
                headers: &[("accept", "text/event-stream")],
                ..body(json!({"instruction": "x", "sessionId": "{session}"}))
            },
            body(json!({"instruction": "x", "repoId": "{repo}"})),
            body(json!({"instruction": "x", "repo": "{repoName}"})),
            body(json!({"instruction": "x", "agent": "{agentName}"})),
            body(json!({"instruction": "x", "agentContextId": "{agentContext}"})),
            body(json!({"instruction": "x", "conversationContextId": "{conversationContext}"})),
        ],
        "edit_session" => vec![
            body(json!({"name": "taken over", "isPublic": true})),
            Request { headers: &[("if-match", "\"999\"")], ..body(json!({"name": "taken over"})) },
        ],
        "complete_session" | "suspend_session" => {
            vec![body(json!({"interrupt": true})), body(json!({}))]
        }
        "resume_session" | "cancel_turn" => vec![body(json!({}))],
        "prompt_session" => vec![body(json!({"text": "x", "onBusy": "enqueue"}))],
        "rerun_turn" => vec![body(json!({"onBusy": "enqueue"})), body(json!({"instruction": "x"}))],
        _ => Vec::new(),
    }
}
