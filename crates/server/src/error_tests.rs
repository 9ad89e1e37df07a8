use serde_json::json;
use skein_core::model::{InvalidTransition, SessionId, SessionStateName};
use uuid::Uuid;

use super::*;

fn shown(error: Error) -> (u16, &'static str) {
    let problem = Problem::from(error);
    (problem.code.status().as_u16(), problem.code.as_str())
}

#[test]
fn every_refusal_has_its_status_and_its_stable_code() {
    let turn = TurnId::from_uuid(Uuid::from_u128(1));
    let state = SessionStateName::Completed;
    let transition = |entity| InvalidTransition { entity, id: Uuid::nil(), from: "a", to: "b" };
    let boxed = || -> Box<dyn std::error::Error + Send + Sync> { "secret".into() };

    let map: Vec<_> = [
        Error::NotFound { entity: "session" },
        Error::Forbidden { action: "x" },
        Error::Invalid { field: "name", reason: String::new() },
        Error::InvalidFilter { field: "limit", reason: String::new() },
        Error::InvalidCursor { cursor: "9".to_owned(), last: 1 },
        Error::EmptyInstruction,
        Error::TooLarge { what: "name", size: 2, limit: 1 },
        Error::UnknownReference { field: "agent", value: String::new() },
        Error::PathOutsideWorkspace { path: String::new() },
        Error::NoWorkspaceRoot,
        Error::NotARepository { path: String::new() },
        Error::AlreadyExists { entity: "user", name: String::new() },
        Error::HashMismatch { path: String::new() },
        Error::TurnInProgress { turn: Some(turn) },
        Error::TurnAlreadyFinished { turn },
        Error::TurnNotFinished { turn },
        Error::SessionNotActive { state, wanted: "x" },
        Error::SessionSuspended,
        Error::SessionNotSuspended { state },
        Error::PreconditionFailed { revision: 3 },
        Error::IdempotencyKeyReused,
        Error::IdempotencyInProgress { turn },
        Error::QueueFull { limit: 5 },
        Error::SessionLimit { limit: 5 },
        Error::PermissionSettled,
        Error::Draining,
        Error::Transition(transition("turn")),
        Error::Transition(transition("session")),
        Error::Store(StoreError::Full),
        Error::Store(StoreError::Unavailable(boxed())),
        Error::Store(StoreError::Corrupt { entity: "turn", reason: "secret".to_owned() }),
        Error::from(Conflict::SessionChanged(SessionId::from_uuid(Uuid::nil()))),
        Error::from(Conflict::Missing("session")),
        Error::from(Conflict::AlreadyExists("key")),
    ]
    .into_iter()
    .map(shown)
    .collect();

    assert_eq!(
        map,
        [
            (404, "not_found"),
            (403, "forbidden"),
            (400, "invalid_request"),
            (400, "invalid_filter"),
            (400, "invalid_cursor"),
            (422, "empty_instruction"),
            (413, "payload_too_large"),
            (422, "unknown_reference"),
            (422, "path_outside_workspace"),
            (422, "path_outside_workspace"),
            (422, "not_a_repository"),
            (409, "already_exists"),
            (422, "hash_mismatch"),
            (409, "turn_in_progress"),
            (409, "turn_already_finished"),
            (409, "turn_not_finished"),
            (409, "session_not_active"),
            (409, "session_suspended"),
            (409, "session_not_suspended"),
            (412, "precondition_failed"),
            (422, "idempotency_key_reused"),
            (409, "idempotency_in_progress"),
            (429, "queue_full"),
            (429, "session_limit"),
            (409, "permission_settled"),
            (503, "draining"),
            (409, "turn_already_finished"),
            (409, "session_not_active"),
            (507, "storage_full"),
            (503, "storage_unavailable"),
            (500, "internal"),
            (503, "storage_unavailable"),
            (404, "not_found"),
            (409, "already_exists"),
        ]
    );
}

#[test]
fn a_problem_names_what_helps() {
    let turn = TurnId::from_uuid(Uuid::from_u128(1));

    let wire = Problem::from(Error::TurnInProgress { turn: Some(turn) }).to_wire("r-1");

    assert_eq!(
        serde_json::to_value(wire).unwrap(),
        json!({
            "type": "/problems/turn_in_progress",
            "title": "A turn is in progress",
            "status": 409,
            "code": "turn_in_progress",
            "detail": "a turn is still pending; wait for it, cancel it, or enqueue",
            "requestId": "r-1",
            "retryable": true,
            "turnId": "00000000-0000-0000-0000-000000000001",
        })
    );
}

#[test]
fn internal_text_is_logged_and_never_shown() {
    let corrupt = StoreError::Corrupt { entity: "turn", reason: "/var/lib/skein".to_owned() };

    let problem = Problem::from(Error::Store(corrupt));

    let shown = serde_json::to_string(&problem.to_wire("r")).unwrap();
    assert!(!shown.contains("/var/lib"), "{shown}");
    assert!(problem.cause().unwrap().contains("/var/lib"));
}

#[test]
fn answers_that_ask_for_a_pause_name_it() {
    for code in Code::ALL {
        let status = code.status().as_u16();
        let response = Problem::new(*code, "").into_response();

        let pause = response.headers().contains_key(header::RETRY_AFTER);
        assert_eq!(pause, matches!(status, 429 | 503), "{code:?}");
        let asks = response.headers().contains_key(header::WWW_AUTHENTICATE);
        assert_eq!(asks, status == 401, "{code:?}");
    }
}
