//! A turn that has to wait is planned when it starts.

use skein_core::{
    intake::{self, ExecuteRequest, OnBusy},
    model::{ChainDecision, FailureCode, FileFate, TurnState},
    platform::{Budgets, Limits},
};
use skein_testkit::{passage, responses::Answer};

use crate::desk::{Desk, DeskSettings, asking, file};

#[tokio::test]
async fn a_queued_turn_goes_on_from_the_turn_before_it_with_the_files_it_was_given() {
    let desk = Desk::new().await;
    let first = desk.ask(None, "first").await;
    let session = Some(first.session);
    let gate = desk.provider.gate("busy");
    desk.provider.script(Answer::default().hold_before(2, "busy"));
    let scope = desk.scope();
    let accept = async |request: ExecuteRequest| {
        let command = intake::normalize(request, &Limits::default()).unwrap();
        desk.orchestrator.accept(&scope, command, None).await.unwrap()
    };
    let files = vec![file("a.rs", "fn a() {}")];
    let running =
        accept(ExecuteRequest { active_files: files.clone(), ..asking(session, "second") }).await;
    gate.reached().await;
    desk.retriever.find_next([passage("c1", "x.rs", "fn x()", "x")]);
    let mut changed = files;
    changed.push(file("b.rs", "fn b() {}"));
    let queued = accept(ExecuteRequest {
        active_files: changed,
        on_busy: OnBusy::Enqueue,
        ..asking(session, "third")
    })
    .await;
    let waiting = desk.history.turn(&scope, first.session, queued.turn).await.unwrap().turn;
    assert!(waiting.request.files.iter().all(|file| file.fate == FileFate::Waiting));

    gate.open();
    desk.orchestrator.outcome_of(&scope, running).await.unwrap();
    let third = desk.orchestrator.outcome_of(&scope, queued).await.unwrap();

    assert_eq!(third.short_answer(), Some("turn 3: third"));
    let third = desk.stored(&third).await;
    let fates: Vec<_> = third.request.files.iter().map(|file| file.fate).collect();
    assert_eq!(fates, [FileFate::Unchanged, FileFate::Sent]);
    let plan = third.plan.unwrap();
    assert_eq!(plan.chain.decision, ChainDecision::Continue);
    assert_eq!(plan.chunks[0].chunk_id, "c1");
}

#[tokio::test]
async fn turns_that_wait_behind_the_one_that_uses_up_the_budget_are_never_dispatched() {
    let budgets = Budgets { session_tokens: Some(1), ..Budgets::default() };
    let desk = Desk::with(DeskSettings { budgets, ..DeskSettings::default() }).await;
    let gate = desk.provider.gate("busy");
    desk.provider.script(Answer::default().hold_before(2, "busy"));
    let scope = desk.scope();
    let accept = async |request: ExecuteRequest| {
        let command = intake::normalize(request, &Limits::default()).unwrap();
        desk.orchestrator.accept(&scope, command, None).await.unwrap()
    };
    let running = accept(asking(None, "first")).await;
    gate.reached().await;
    let session = Some(running.session);
    let wait = |text| ExecuteRequest { on_busy: OnBusy::Enqueue, ..asking(session, text) };
    let waiting = [accept(wait("second")).await, accept(wait("third")).await];

    gate.open();
    let first = desk.orchestrator.outcome_of(&scope, running).await.unwrap();

    assert_eq!(first.short_answer(), Some("turn 1: first"));
    for turn in waiting {
        let ended = desk.orchestrator.outcome_of(&scope, turn).await.unwrap();
        let TurnState::Failed(failure) = ended.turn.state else { panic!("{:?}", ended.turn) };
        assert_eq!(failure.code, FailureCode::BudgetExceeded);
    }
    assert_eq!(desk.sent().len(), 1);
}
