//! Agents that break the protocol cost a warning or a failed turn, never the server.

use serde_json::{Value, json};

use crate::{desk::Desk, processes::status_bytes};

const MEGABYTE: u64 = 1024 * 1024;

/// The texts of a turn's warnings.
fn warnings(turn: &Value) -> Vec<&str> {
    turn["warnings"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[tokio::test]
async fn what_nobody_understands_is_skipped_and_told_once() {
    let kinds = [
        "text",
        "binary",
        "json",
        "unknown-id",
        "unknown-method",
        "unknown-request",
        "unknown-update",
        "bad-update",
        "wrong-session",
        "twice",
    ];
    for kind in kinds {
        let mut desk = Desk::start(&["--garbage", kind]).await;
        let session = desk.active().await;

        let turn = desk.run(&session, &format!("say a\ngarbage {kind} 3\nsay b")).await;
        let next = desk.said(&session, "say c").await;

        assert_eq!(turn["status"]["key"], "completed", "{kind}: {turn}");
        assert_eq!(desk.said_in(&session, turn["id"].as_str().unwrap()).await, "ab", "{kind}");
        assert_eq!(next, "c", "{kind}");
        assert!(warnings(&turn).len() <= 1, "{kind}: {turn}");
        if ["text", "binary", "json", "unknown-id", "unknown-method"].contains(&kind) {
            assert_eq!(warnings(&turn).len(), 1, "{kind}: {turn}");
        }
        assert_eq!(desk.contents(&session, "error").await, Vec::<Value>::new());
        desk.assert_sound();
    }
}

#[tokio::test]
async fn all_kinds_of_garbage_at_once() {
    let kinds = [
        "text",
        "binary",
        "json",
        "unknown-id",
        "unknown-method",
        "unknown-request",
        "unknown-update",
        "bad-update",
        "wrong-session",
        "twice",
    ];
    let flags: Vec<&str> =
        kinds.iter().flat_map(|kind| ["--garbage", kind]).chain(["--chatter"]).collect();
    let mut desk = Desk::start(&flags).await;
    let session = desk.active().await;

    let said = desk.said(&session, "say hello").await;

    assert_eq!(said, "hello");
    desk.assert_sound();
}

#[tokio::test]
async fn a_thousand_bad_lines_are_one_warning_and_one_more_fails_the_turn() {
    let mut desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let other = desk.active().await;

    let patient = desk.run(&session, "garbage text 1000\nsay still here").await;
    let enough = desk.run(&session, "garbage text 1001\nsay never").await;

    assert_eq!(patient["status"]["key"], "completed", "{patient}");
    let [warning] = warnings(&patient)[..] else { panic!("{patient}") };
    assert!(warning.contains("1000") || warning.contains("1,000"), "it says how many: {warning}");
    assert_eq!(
        (&enough["status"]["key"], &enough["errorCode"]),
        (&json!("failed"), &json!("agent_protocol_error")),
        "{enough}"
    );
    assert_eq!(desk.said(&other, "say hello").await, "hello");
    desk.assert_sound();
}

#[tokio::test]
async fn a_line_of_sixteen_megabytes_is_too_long() {
    let mut desk = Desk::start(&[]).await;
    let session = desk.active().await;

    let long = desk.run(&session, "long-line 8").await;
    let too_long = desk.run(&session, "say a\nlong-line 17\nsay b").await;

    assert_eq!(long["status"]["key"], "completed", "{}", long["errors"]);
    assert_eq!(
        (&too_long["status"]["key"], &too_long["errorCode"]),
        (&json!("failed"), &json!("agent_protocol_error")),
        "{}",
        too_long["errors"]
    );
    desk.assert_sound();
}

#[tokio::test]
async fn a_line_of_a_hundred_megabytes_is_never_held() {
    let mut desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let other = desk.active().await;
    let before = status_bytes(desk.server.pid(), "VmHWM");

    let turn = desk.run(&session, "long-line 100").await;
    let grown = status_bytes(desk.server.pid(), "VmHWM") - before;

    assert_eq!(turn["errorCode"], "agent_protocol_error", "{}", turn["errors"]);
    eprintln!("a line of 100 MB: the server grew by {} MB", grown / MEGABYTE);
    assert!(grown < 64 * MEGABYTE, "{} MB", grown / MEGABYTE);
    assert_eq!(desk.said(&other, "say hello").await, "hello");
    desk.assert_sound();
}

#[tokio::test]
async fn a_long_line_before_the_first_answer_is_skipped() {
    let mut desk = Desk::start(&["--long-line", "17"]).await;
    let session = desk.create().await;

    let said = desk.said(&session, "say hello").await;

    assert_eq!(said, "hello");
    desk.assert_sound();
}

#[tokio::test]
async fn a_session_is_only_known_by_a_name_that_can_be_kept() {
    let (long, longest) = ("x".repeat(1_025), "x".repeat(1_024));
    for name in ["", &long, "a\nb", "a\tb"] {
        let mut desk = Desk::start(&["--session-id", name]).await;
        let session = desk.create().await;

        let turn = desk.run(&session, "say hello").await;

        assert_eq!(turn["errorCode"], "agent_protocol_error", "{name:?}: {turn}");
        desk.until_state(&session, "failed").await;
        desk.nothing_runs().await;
        desk.assert_sound();
    }
    let desk = Desk::start(&["--session-id", &longest]).await;
    let session = desk.active().await;
    assert_eq!(desk.said(&session, "say hello").await, "hello");
    assert_eq!(desk.session(&session).await["providerSessionId"], longest);
}

#[tokio::test]
async fn updates_after_the_end_of_a_turn_belong_to_none() {
    let mut desk = Desk::start(&["--late", "3"]).await;
    let session = desk.active().await;

    let first = desk.said(&session, "say first").await;
    let second = desk.said(&session, "history").await;

    assert_eq!(first, "first");
    assert_eq!(second, "user: say first\nagent: first");
    assert_eq!(desk.messages(&session).await.len(), 4);
    desk.assert_sound();
}

#[tokio::test]
async fn much_on_the_standard_error_is_kept_short() {
    let mut desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let noise = "stderr 0123456789012345678901234567890123456789\n".repeat(2_000);

    let turn = desk.run(&session, &format!("{noise}stderr the last word\nexit 3")).await;

    assert_eq!(turn["errorCode"], "agent_exited");
    desk.until_state(&session, "failed").await;
    let errors = desk.contents(&session, "error").await;
    let [error] = &errors[..] else { panic!("one message: {errors:?}") };
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("the last word"), "{message}");
    assert!(message.len() < 16 * 1024, "{} bytes", message.len());
    desk.assert_sound();
}
