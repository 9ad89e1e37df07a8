//! Routes for programs that test from outside: scripts, gates, losses and the ledger.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, State as Shared},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};

use super::{record::Keeping, script::Script, state::State};

type Server = Shared<Arc<State>>;

pub(super) fn router() -> Router<Arc<State>> {
    Router::new()
        .route("/_script", post(script))
        .route("/_gates/{name}", post(open_gate))
        .route("/_forget", post(forget_all))
        .route("/_forget/{id}", post(forget))
        .route("/_expire/{id}", post(expire))
        .route("/_ledger", get(ledger))
}

/// One line of a script, or a list of them.
pub(super) fn load(state: &State, script: Value) -> Result<usize, serde_json::Error> {
    let lines: Vec<Script> = match script {
        Value::Array(_) => serde_json::from_value(script)?,
        one => vec![serde_json::from_value(one)?],
    };
    let mut queue = state.queue();
    for line in lines {
        queue.push(line);
    }
    Ok(queue.len())
}

async fn script(Shared(state): Server, Json(script): Json<Value>) -> Response {
    match load(&state, script) {
        Ok(queued) => Json(json!({"queued": queued})).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

async fn open_gate(Shared(state): Server, Path(name): Path<String>) -> StatusCode {
    state.gate(&name).open();
    StatusCode::NO_CONTENT
}

async fn forget_all(Shared(state): Server) -> StatusCode {
    state.keep_all(Keeping::Gone);
    StatusCode::NO_CONTENT
}

async fn forget(Shared(state): Server, Path(id): Path<String>) -> StatusCode {
    lose(&state, &id, Keeping::Gone)
}

async fn expire(Shared(state): Server, Path(id): Path<String>) -> StatusCode {
    lose(&state, &id, Keeping::Expired)
}

fn lose(state: &State, id: &str, keeping: Keeping) -> StatusCode {
    match state.record(id) {
        Some(record) => {
            record.keep(keeping);
            StatusCode::NO_CONTENT
        }
        None => StatusCode::NOT_FOUND,
    }
}

async fn ledger(Shared(state): Server) -> Json<Value> {
    let requests: Vec<_> = state
        .ledger
        .requests()
        .into_iter()
        .map(|request| {
            json!({
                "method": request.method,
                "path": request.path,
                "query": request.query,
                "headers": request.headers,
                "body": String::from_utf8_lossy(&request.body),
                "json": request.json,
                "status": request.status,
            })
        })
        .collect();
    let dispatches: Vec<_> = state
        .ledger
        .dispatches()
        .into_iter()
        .map(|dispatch| {
            let status = state.record(&dispatch.response_id).map(|record| record.status().name());
            let metadata = &dispatch.body["metadata"];
            json!({"response_id": dispatch.response_id, "metadata": metadata, "status": status})
        })
        .collect();
    Json(json!({"requests": requests, "dispatches": dispatches}))
}
