//! Edit mode: what a model proposes becomes files that may be written.

use skein_core::{
    intake::ExecuteRequest,
    model::{FileAction, Mode, Sha256Hash},
    platform::ContextSettings,
    ports::ChainKeeping,
};
use skein_testkit::responses::Answer;

use crate::desk::{Desk, DeskSettings, asking, file};

fn editing(
    desk_session: Option<skein_core::model::SessionId>,
    instruction: &str,
) -> ExecuteRequest {
    ExecuteRequest { mode: Some(Mode::Edit), ..asking(desk_session, instruction) }
}

#[tokio::test]
async fn the_model_is_offered_one_tool_only_in_edit_mode() {
    let desk = Desk::new().await;

    let first = desk.ask(None, "ask").await;
    desk.execute(editing(Some(first.session), "edit")).await.unwrap();

    let sent = desk.sent();
    assert!(sent[0]["tools"].is_null(), "{}", sent[0]);
    assert_eq!(sent[1]["tools"][0]["name"], "propose_files");
    assert_eq!(sent[1]["tools"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_proposal_is_checked_against_the_versions_that_the_model_was_shown() {
    let desk = Desk::new().await;
    let shown = ExecuteRequest {
        active_files: vec![file("old.rs", "one\n"), file("gone.rs", "bye\n")],
        ..asking(None, "look")
    };
    let first = desk.execute(shown).await.unwrap();
    let arguments = r#"{"files":[
        {"path":"./old.rs","action":"update","content":"two\n"},
        {"path":".//gone.rs","action":"delete","content":null},
        {"path":"new.rs","action":"create","content":"new\n"}]}"#;
    desk.provider.script(Answer::text("Done.").and_tool_call("propose_files", arguments));

    let executed = desk.execute(editing(Some(first.session), "change")).await.unwrap();

    let bundle = executed.bundle.clone().unwrap();
    let files: Vec<_> =
        bundle.files.iter().map(|file| (file.path.as_str(), file.action, file.base_hash)).collect();
    let hash = |text: &str| Some(Sha256Hash::of(text.as_bytes()));
    let expected = [
        ("old.rs", FileAction::Update, hash("one\n")),
        ("gone.rs", FileAction::Delete, hash("bye\n")),
        ("new.rs", FileAction::Create, None),
    ];
    assert_eq!(files, expected);
    let diff = bundle.files[0].diff.as_deref().unwrap();
    assert_eq!(diff, "--- a/old.rs\n+++ b/old.rs\n@@ -1 +1 @@\n-one\n+two\n");
    assert_eq!(executed.short_answer(), Some("Done."));
    assert!(desk.stored(&executed).await.warnings.is_empty());
}

#[tokio::test]
async fn a_malformed_or_escaping_proposal_is_a_warning_and_keeps_the_text() {
    for arguments in
        ["{\"files\":", r#"{"files":[{"path":"../x","action":"create","content":"x"}]}"#]
    {
        let desk = Desk::new().await;
        desk.provider.script(Answer::text("Here.").and_tool_call("propose_files", arguments));

        let executed = desk.execute(editing(None, "change")).await.unwrap();

        assert_eq!(executed.short_answer(), Some("Here."));
        assert!(executed.bundle.is_none());
        let warnings = desk.stored(&executed).await.warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("the agent's file proposal is unusable"), "{warnings:?}");
    }
}

#[tokio::test]
async fn a_version_that_this_request_did_not_show_is_no_base() {
    let chain = ChainKeeping::Nobody;
    let context = ContextSettings { live_tokens: 0, ..ContextSettings::default() };
    let desk = Desk::with(DeskSettings { chain, context, ..DeskSettings::default() }).await;
    let active_files = vec![file("old.rs", "one\n")];
    let first =
        desk.execute(ExecuteRequest { active_files, ..asking(None, "look") }).await.unwrap();
    let arguments = r#"{"files":[{"path":"old.rs","action":"update","content":"two\n"}]}"#;
    desk.provider.script(Answer::text("Done.").and_tool_call("propose_files", arguments));

    let executed = desk.execute(editing(Some(first.session), "change")).await.unwrap();

    let sent = desk.sent().pop().unwrap().to_string();
    assert!(!sent.contains("one\\n"), "{sent}");
    let bundle = executed.bundle.clone().unwrap();
    assert_eq!((bundle.files[0].base_hash, &bundle.files[0].diff), (None, &None));
    let warnings = desk.stored(&executed).await.warnings;
    assert!(warnings.iter().any(|warning| warning.contains("old.rs")), "{warnings:?}");
}
