//! A turn that has to wait is planned when it starts.

use skein_core::{
    intake::{self, ExecuteRequest, OnBusy},
    model::{ChainDecision, FileFate},
    platform::Limits,
};
use skein_testkit::{passage, responses::Answer};

use crate::desk::{Desk, asking, file};

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
