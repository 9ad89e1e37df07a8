//! Only what is new goes to the model.

use serde_json::Value;
use skein_core::{
    intake::{ClientShape, ExecuteRequest},
    model::{ChainDecision, ChunkFate, FileFate, SentTexts, TurnState},
    platform::ContextSettings,
};
use skein_testkit::passage;

use crate::desk::{Desk, DeskSettings, asking, file, last_parts};

fn fates(turn: &skein_core::model::Turn) -> Vec<(String, FileFate)> {
    turn.request.files.iter().map(|file| (file.path.clone(), file.fate)).collect()
}

fn chunk_fates(turn: &skein_core::model::Turn) -> Vec<(String, ChunkFate)> {
    let plan = turn.plan.as_ref().unwrap();
    plan.chunks.iter().map(|chunk| (chunk.chunk_id.clone(), chunk.fate)).collect()
}

#[tokio::test]
async fn an_unchanged_file_is_sent_once_and_a_changed_one_again() {
    let desk = Desk::new().await;
    let files = || vec![file("a.rs", "fn a() {}"), file("b.rs", "fn b() {}")];
    let first = desk
        .execute(ExecuteRequest { active_files: files(), ..asking(None, "one") })
        .await
        .unwrap();
    let changed = vec![file("a.rs", "fn a() {}"), file("b.rs", "fn b2() {}")];

    let session = Some(first.session);
    let second = desk
        .execute(ExecuteRequest { active_files: changed, ..asking(session, "two") })
        .await
        .unwrap();

    let second = desk.stored(&second).await;
    let expected = [("a.rs".to_owned(), FileFate::Unchanged), ("b.rs".to_owned(), FileFate::Sent)];
    assert_eq!(fates(&second), expected);
    let sent = desk.sent();
    assert_eq!(sent[1]["previous_response_id"], response_id(&desk.stored(&first).await));
    let parts = last_parts(&sent[1]);
    assert_eq!(parts.len(), 2, "the changed file and the instruction: {parts:?}");
    assert!(parts[0].contains("fn b2() {}"));
    assert_eq!(parts[1], "two");
    let plan = second.plan.unwrap();
    assert_eq!(plan.chain.decision, ChainDecision::Continue);
    let said = "one".len() + "turn 1: one".len();
    assert_eq!(plan.saved.bytes, ("fn a() {}".len() + said) as u64);
}

#[tokio::test]
async fn another_spelling_of_a_path_is_the_same_file() {
    let desk = Desk::new().await;
    desk.retriever.find_next([passage("old", "src/b.rs", "fn old()", "fn old() {}")]);
    let files = |one: &str, other: &str| vec![file(one, "fn a() {}"), file(other, "fn b() {}")];
    let asked = |session, active_files| ExecuteRequest { active_files, ..asking(session, "what?") };
    let first = desk.execute(asked(None, files("a.rs", "./src//b.rs"))).await.unwrap();

    let again = files("./a.rs", "src/./b.rs");
    let second = desk.execute(asked(Some(first.session), again)).await.unwrap();

    let first = desk.stored(&first).await;
    assert_eq!(chunk_fates(&first), [("old".to_owned(), ChunkFate::StaleLocalVersion)]);
    let expected =
        [("a.rs".to_owned(), FileFate::Unchanged), ("src/b.rs".to_owned(), FileFate::Unchanged)];
    assert_eq!(fates(&desk.stored(&second).await), expected);
    assert_eq!(last_parts(&desk.sent()[1]), ["what?"]);
}

#[tokio::test]
async fn the_request_and_the_response_are_kept_byte_by_byte() {
    let desk = Desk::new().await;

    let executed = desk.ask(None, "hello").await;

    let turn = desk.stored(&executed).await;
    let kept = desk.payload(turn.request.request_payload.unwrap()).await;
    assert_eq!(kept, desk.provider.requests()[0].body);
    let TurnState::Completed(answer) = turn.state else { panic!("{:?}", turn.state) };
    let raw = desk.payload(answer.response.payload.unwrap()).await;
    let raw = std::str::from_utf8(&raw).unwrap();
    assert!(raw.starts_with("event: response.created\n"), "{raw}");
    assert!(raw.contains("response.completed"), "{raw}");
}

#[tokio::test]
async fn the_same_instruction_gives_the_same_request_from_every_client() {
    let mut bodies = Vec::new();
    for client in [ClientShape::Browser, ClientShape::Cli, ClientShape::Thick] {
        let desk = Desk::new().await;
        desk.retriever.find_next([passage("c1", "src/x.rs", "fn x()", "fn x() {}")]);
        let request = ExecuteRequest {
            client,
            active_files: vec![file("a.rs", "fn a() {}")],
            workspace_id: Some("w".to_owned()),
            temperature: Some(0.25),
            ..asking(None, "same")
        };
        desk.execute(request).await.unwrap();
        bodies.push(desk.provider.requests()[0].body.clone());
    }

    assert_eq!(bodies[0], bodies[1]);
    assert_eq!(bodies[0], bodies[2]);
    let mut body: Value = serde_json::from_slice(&bodies[0]).unwrap();
    assert_eq!(body["temperature"], 0.25);
    let metadata = body.as_object_mut().unwrap().remove("metadata").unwrap();
    let rest = body.to_string();
    for id in metadata.as_object().unwrap().values() {
        assert!(!rest.contains(id.as_str().unwrap()), "an id outside of metadata: {rest}");
    }
}

#[tokio::test]
async fn a_passage_is_sent_once_within_a_chain_and_its_exact_text_is_kept() {
    let desk = Desk::new().await;
    let (one, two) =
        (passage("c1", "x.rs", "fn one()", "x"), passage("c2", "x.rs", "fn two()", "x"));
    let three = passage("c3", "y.rs", "fn three()", "y");
    desk.retriever.find_next([one, two.clone()]);
    desk.retriever.find_next([two, three]);

    let first = desk.ask(None, "first").await;
    let second = desk.ask(Some(first.session), "second").await;

    let turn = desk.stored(&second).await;
    let expected =
        [("c2".to_owned(), ChunkFate::AlreadyInChain), ("c3".to_owned(), ChunkFate::New)];
    assert_eq!(chunk_fates(&turn), expected);
    let parts = last_parts(&desk.sent()[1]);
    assert_eq!(parts.len(), 2, "{parts:?}");
    assert!(parts[0].contains("fn three()"));
    let plan = turn.plan.unwrap();
    assert_eq!(plan.difference.added, ["c3"]);
    assert_eq!(plan.difference.removed, ["c1"]);
    assert_eq!(plan.difference.kept, ["c2"]);
    let texts: SentTexts =
        serde_json::from_slice(&desk.payload(plan.texts.unwrap()).await).unwrap();
    let texts: Vec<_> = texts.chunks.iter().map(|chunk| chunk.text.as_str()).collect();
    assert_eq!(texts, ["fn three()"]);
}

#[tokio::test]
async fn a_passage_of_a_locally_edited_file_is_dropped_in_favour_of_the_local_version() {
    let desk = Desk::new().await;
    desk.retriever.find_next([
        passage("old", "edited.rs", "fn old()", "fn old() {}"),
        passage("same", "same.rs", "fn same()", "fn same() {}"),
    ]);
    let active_files = vec![file("edited.rs", "fn new() {}"), file("same.rs", "fn same() {}")];

    let executed =
        desk.execute(ExecuteRequest { active_files, ..asking(None, "what?") }).await.unwrap();

    let turn = desk.stored(&executed).await;
    let expected =
        [("old".to_owned(), ChunkFate::StaleLocalVersion), ("same".to_owned(), ChunkFate::New)];
    assert_eq!(chunk_fates(&turn), expected);
    assert!(!desk.sent()[0].to_string().contains("fn old()"));
}

#[tokio::test]
async fn passages_beyond_the_budget_stay_behind() {
    let context = ContextSettings { passage_tokens: 10, ..ContextSettings::default() };
    let desk = Desk::with(DeskSettings { context, ..DeskSettings::default() }).await;
    let long = "x".repeat(100);
    desk.retriever.find_next([passage("long", "l", &long, ""), passage("short", "s", "y", "")]);

    let executed = desk.ask(None, "what?").await;

    let turn = desk.stored(&executed).await;
    let expected =
        [("long".to_owned(), ChunkFate::OverBudget), ("short".to_owned(), ChunkFate::New)];
    assert_eq!(chunk_fates(&turn), expected);
}

#[tokio::test]
async fn a_failed_search_is_a_warning_on_a_turn_that_goes_on() {
    let desk = Desk::new().await;
    desk.retriever.fail_next();

    let executed = desk.ask(None, "hello").await;

    assert_eq!(executed.short_answer(), Some("turn 1: hello"));
    let warnings = desk.stored(&executed).await.warnings;
    assert_eq!(warnings, ["no passages could be looked for: the index is unavailable"]);
}

#[tokio::test]
async fn files_that_are_too_large_or_binary_are_listed_with_their_reason_and_not_sent() {
    let desk = Desk::new().await;
    let large = "x".repeat(102_401);
    let active_files = vec![file("large", &large), file("binary", "a\0b"), file("ok", "fine")];

    let executed =
        desk.execute(ExecuteRequest { active_files, ..asking(None, "look") }).await.unwrap();

    let turn = desk.stored(&executed).await;
    let expected = [
        ("large".to_owned(), FileFate::TooLarge),
        ("binary".to_owned(), FileFate::Binary),
        ("ok".to_owned(), FileFate::Sent),
    ];
    assert_eq!(fates(&turn), expected);
    assert_eq!(turn.request.files[0].reason, "102401 bytes, the limit is 102400");
    assert_eq!(last_parts(&desk.sent()[0]).len(), 2);
}

#[tokio::test]
async fn a_dry_run_plans_the_same_and_leaves_no_trace() {
    let desk = Desk::new().await;
    let first = desk
        .execute(ExecuteRequest { active_files: vec![file("a", "1")], ..asking(None, "one") })
        .await
        .unwrap();
    let request = || ExecuteRequest {
        active_files: vec![file("a", "1"), file("b", "2")],
        ..asking(Some(first.session), "two")
    };

    let planned = desk.plan(request()).await;

    assert_eq!(desk.sent().len(), 1);
    let real = desk.execute(request()).await.unwrap();
    let real = desk.stored(&real).await;
    assert_eq!(real.number, 2, "the plan was no turn");
    assert_eq!(planned.turn.request.files, real.request.files);
    let (planned, real) = (planned.turn.plan.unwrap(), real.plan.unwrap());
    assert_eq!(planned.chain, real.chain);
    assert_eq!((planned.sent, planned.saved), (real.sent, real.saved));
}

fn response_id(turn: &skein_core::model::Turn) -> &str {
    match &turn.state {
        TurnState::Completed(answer) => answer.response.id.as_deref().unwrap(),
        other => panic!("{other:?}"),
    }
}
