//! A provider that forgets costs a warning, never the conversation.

use std::time::Duration;

use skein_core::{
    intake::ExecuteRequest,
    model::{ChainDecision, ChainReason, FailureCode, HistoryForm, Turn, TurnState},
    platform::{BudgetPeriod, Budgets, ContextSettings},
    ports::ChainKeeping,
};
use skein_testkit::{
    passage,
    responses::{Answer, Ending, Refusal},
};

use crate::desk::{Desk, DeskSettings, asking, file, last_parts, usage};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Two turns with a file and a passage, before the chain is lost.
async fn conversation(desk: &Desk) -> skein_core::model::SessionId {
    desk.retriever.find_next([passage("c1", "x.rs", "fn one()", "x")]);
    let first = desk
        .execute(ExecuteRequest {
            active_files: vec![file("a.rs", "fn a() {}"), file("b.rs", "fn b() {}")],
            ..asking(None, "first")
        })
        .await
        .unwrap();
    desk.ask(Some(first.session), "second").await;
    first.session
}

fn reason(turn: &Turn) -> (ChainDecision, ChainReason) {
    let chain = &turn.plan.as_ref().unwrap().chain;
    (chain.decision, chain.reason)
}

/// What a rehydrated request holds: the turns before, what was shown, and the new instruction last.
fn assert_rehydrated(desk: &Desk, instruction: &str) {
    let sent = desk.sent().pop().unwrap();
    assert!(sent["previous_response_id"].is_null(), "{sent}");
    let input = sent["input"].as_array().unwrap();
    let texts: Vec<&str> =
        input[..4].iter().map(|item| item["content"][0]["text"].as_str().unwrap()).collect();
    assert_eq!((texts[0], texts[2]), ("first", "second"));
    assert!(texts[1].starts_with("turn 1") && texts[3].starts_with("turn 2"), "{texts:?}");
    let roles: Vec<&str> = input.iter().map(|item| item["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
    let parts = last_parts(&sent);
    assert_eq!(parts.len(), 4, "a passage, two files, the instruction: {parts:?}");
    assert!(parts[0].contains("fn one()"));
    assert!(parts[1].contains("fn a() {}"));
    assert!(parts[2].contains("fn b() {}"));
    assert_eq!(parts[3], instruction);
}

#[tokio::test]
async fn a_chain_that_the_provider_lost_is_rebuilt_once_with_one_warning() {
    let desk = Desk::new().await;
    let session = conversation(&desk).await;
    desk.provider.forget_all();

    let third = desk.ask(Some(session), "third").await;
    let fourth = desk.ask(Some(session), "fourth").await;

    assert_eq!(third.short_answer(), Some("turn 3: third"));
    let third = desk.stored(&third).await;
    assert_eq!(reason(&third), (ChainDecision::Rehydrate, ChainReason::Lost));
    assert_eq!(third.warnings.len(), 1, "{:?}", third.warnings);
    let manifest = third.plan.unwrap().rehydrated.unwrap();
    let turns: Vec<_> =
        manifest.turns.iter().map(|turn| (turn.sequence_number, turn.form)).collect();
    assert_eq!(turns, [(1, HistoryForm::Whole), (2, HistoryForm::Whole)]);
    let files: Vec<_> = manifest.files.iter().map(|item| item.item.as_str()).collect();
    assert_eq!(files, ["a.rs", "b.rs"]);
    assert_eq!(manifest.chunks[0].item, "c1");
    let fourth = desk.stored(&fourth).await;
    assert_eq!(reason(&fourth), (ChainDecision::Continue, ChainReason::HeldByProvider));
    assert!(fourth.warnings.is_empty());
}

#[tokio::test]
async fn the_rebuilt_request_is_complete_and_in_order() {
    let desk = Desk::new().await;
    let session = conversation(&desk).await;
    desk.provider.forget_all();

    let third = desk.ask(Some(session), "third").await;

    assert_rehydrated(&desk, "third");
    let third = desk.stored(&third).await;
    let kept = desk.payload(third.request.request_payload.unwrap()).await;
    assert_eq!(kept, desk.provider.requests().pop().unwrap().body);
    assert!(third.request.previous_response_id.is_none());
    let TurnState::Completed(answer) = third.state else { panic!("{:?}", third.state) };
    let raw = desk.payload(answer.response.payload.unwrap()).await;
    let raw = std::str::from_utf8(&raw).unwrap();
    let (refused, answered) = raw.split_once("\n\n").unwrap();
    assert!(refused.contains("previous_response_not_found"), "{raw}");
    assert!(answered.starts_with("event: response.created\n"), "{raw}");
}

#[tokio::test]
async fn a_refusal_that_only_mentions_the_lost_response_is_understood_too() {
    for refusal in [
        Refusal::text(400, "previous_response_not_found"),
        Refusal::text(404, "Previous response resp_1 not found"),
    ] {
        let desk = Desk::new().await;
        let first = desk.ask(None, "first").await;
        desk.provider.script(refusal);

        let second = desk.ask(Some(first.session), "second").await;

        let second = desk.stored(&second).await;
        assert_eq!(reason(&second), (ChainDecision::Rehydrate, ChainReason::Lost));
        assert_eq!(desk.sent().len(), 2, "the refused call started nothing");
    }
}

#[tokio::test]
async fn a_session_of_31_days_goes_on_without_asking_for_the_expired_chain() {
    let desk = Desk::new().await;
    let session = conversation(&desk).await;
    desk.clock.advance(31 * DAY);
    let calls = desk.provider.requests().len();

    let third = desk.ask(Some(session), "third").await;

    assert_rehydrated(&desk, "third");
    assert_eq!(desk.provider.requests().len(), calls + 1, "nobody was asked in vain");
    let third = desk.stored(&third).await;
    assert_eq!(reason(&third), (ChainDecision::Rehydrate, ChainReason::Expired));
    assert_eq!(third.warnings.len(), 1);
}

#[tokio::test]
async fn a_turn_keeps_when_its_chain_expires() {
    let desk = Desk::new().await;

    let first = desk.ask(None, "first").await;

    let TurnState::Completed(answer) = desk.stored(&first).await.state else { panic!() };
    let days = answer.response.chain_expires_at.unwrap().since(answer.at);
    assert_eq!(days, 30 * DAY);
}

#[tokio::test]
async fn another_model_starts_a_chain_of_its_own_without_a_warning() {
    let desk = Desk::new().await;
    let session = conversation(&desk).await;

    let other =
        ExecuteRequest { model: Some("gpt-other".to_owned()), ..asking(Some(session), "third") };
    let third = desk.execute(other).await.unwrap();

    assert_rehydrated(&desk, "third");
    let third = desk.stored(&third).await;
    assert_eq!(reason(&third), (ChainDecision::Rehydrate, ChainReason::ModelChanged));
    assert!(third.warnings.is_empty(), "{:?}", third.warnings);
}

#[tokio::test]
async fn a_provider_that_keeps_nothing_is_told_everything_each_time() {
    let settings = DeskSettings { chain: ChainKeeping::Nobody, ..DeskSettings::default() };
    let desk = Desk::with(settings).await;
    let session = conversation(&desk).await;

    let third = desk.ask(Some(session), "third").await;

    assert_eq!(third.short_answer(), Some("turn 3 (4 items before): third"));
    assert_rehydrated(&desk, "third");
    let third = desk.stored(&third).await;
    assert_eq!(reason(&third), (ChainDecision::Rehydrate, ChainReason::ProviderKeepsNothing));
    assert!(third.warnings.is_empty(), "{:?}", third.warnings);
    assert_eq!(desk.sent().pop().unwrap()["store"], false);
}

#[tokio::test]
async fn a_changed_file_replaces_the_version_that_was_shown_before() {
    let settings = DeskSettings { chain: ChainKeeping::Nobody, ..DeskSettings::default() };
    let desk = Desk::with(settings).await;
    let session = conversation(&desk).await;

    let request = ExecuteRequest {
        active_files: vec![file("a.rs", "fn a2() {}")],
        ..asking(Some(session), "third")
    };
    desk.execute(request).await.unwrap();
    desk.ask(Some(session), "fourth").await;

    let sent = desk.sent().pop().unwrap().to_string();
    assert!(sent.contains("fn a2() {}"), "{sent}");
    assert!(!sent.contains("fn a() {}"), "{sent}");
    assert!(sent.contains("fn b() {}"), "{sent}");
}

#[tokio::test]
async fn a_long_history_is_cut_to_the_budget_with_the_newest_turns_whole() {
    let context = ContextSettings { history_tokens: 2_000, ..ContextSettings::default() };
    let chain = ChainKeeping::Nobody;
    let desk = Desk::with(DeskSettings { chain, context, ..DeskSettings::default() }).await;
    let first = desk.ask(None, &"long ".repeat(500)).await;
    for _ in 0..6 {
        desk.ask(Some(first.session), &"long ".repeat(500)).await;
    }

    let last = desk.ask(Some(first.session), "last").await;

    let manifest = desk.stored(&last).await.plan.unwrap().rehydrated.unwrap();
    let forms: Vec<_> =
        manifest.turns.iter().map(|turn| (turn.sequence_number, turn.form)).collect();
    use HistoryForm::{Summary, Whole};
    assert_eq!(forms, [(6, Summary), (7, Whole)], "{manifest:?}");
    assert_eq!(manifest.turns_left_out, 5);
}

#[tokio::test]
async fn a_failed_turn_is_never_chained_from() {
    let desk = Desk::new().await;
    let first = desk.ask(None, "first").await;
    desk.provider.script(Answer::text("half").ending(Ending::Failed {
        code: "server_error".to_owned(),
        message: "the model broke".to_owned(),
    }));

    let failed = desk.ask(Some(first.session), "second").await;
    desk.ask(Some(first.session), "third").await;

    let failed = desk.stored(&failed).await;
    let TurnState::Failed(failure) = &failed.state else { panic!("{:?}", failed.state) };
    assert_eq!(failure.code, FailureCode::ProviderError);
    assert!(failure.response.id.is_some() && failure.response.payload.is_some());
    let TurnState::Completed(answer) = desk.stored(&first).await.state else { panic!() };
    let third = desk.sent().pop().unwrap();
    assert_eq!(third["previous_response_id"], answer.response.id.unwrap());
}

#[tokio::test]
async fn a_rerun_continues_from_the_last_completed_turn_and_leaves_the_old_one_untouched() {
    let desk = Desk::new().await;
    let session = conversation(&desk).await;
    let page = skein_core::ports::TurnPage::Last;
    let turns = desk.history.turns(&desk.scope(), session, page, 2).await.unwrap();
    let (old, last) = (turns[0].turn.clone(), turns[1].turn.clone());

    let rerun = skein_core::orchestrator::Rerun::default();
    let accepted =
        desk.orchestrator.rerun(&desk.scope(), (session, old.id), rerun, None).await.unwrap();
    let again = desk.orchestrator.outcome_of(&desk.scope(), accepted).await.unwrap();

    assert_eq!(again.short_answer(), Some("turn 3: first"));
    let again = desk.stored(&again).await;
    assert_eq!(again.request.rerun_of, Some(old.id));
    let TurnState::Completed(answer) = last.state else { panic!() };
    assert_eq!(again.request.previous_response_id, answer.response.id);
    let stored = desk.history.turn(&desk.scope(), session, old.id).await.unwrap().turn;
    assert_eq!(stored, old);
    assert_eq!(desk.retriever.queries().len(), 3, "retrieved afresh");
}

#[tokio::test]
async fn a_turn_over_its_budget_is_on_record_and_never_dispatched() {
    for budgets in [
        Budgets { session_tokens: Some(1), ..Budgets::default() },
        Budgets { user_tokens: Some(1), period: BudgetPeriod::Day, ..Budgets::default() },
        Budgets { org_tokens: Some(1), period: BudgetPeriod::Month, ..Budgets::default() },
    ] {
        let desk = Desk::with(DeskSettings { budgets, ..DeskSettings::default() }).await;
        let first = desk.ask(None, "first").await;
        assert!(usage(&first.turn).unwrap().input_tokens > 0);

        let second = desk.ask(Some(first.session), "second").await;

        let second = desk.stored(&second).await;
        assert_eq!(second.number, 2);
        let TurnState::Failed(failure) = second.state else { panic!("{:?}", second.state) };
        assert_eq!(failure.code, FailureCode::BudgetExceeded);
        assert!(second.dispatched_at.is_none());
        assert_eq!(desk.sent().len(), 1);
    }
}

#[tokio::test]
async fn a_budget_of_a_day_is_fresh_the_next_day() {
    let budgets = Budgets { user_tokens: Some(1), period: BudgetPeriod::Day, ..Budgets::default() };
    let desk = Desk::with(DeskSettings { budgets, ..DeskSettings::default() }).await;
    let first = desk.ask(None, "first").await;
    desk.clock.advance(DAY);

    let second = desk.ask(Some(first.session), "second").await;

    assert_eq!(second.short_answer(), Some("turn 2: second"));
}

#[tokio::test]
async fn a_search_that_fails_while_the_chain_is_lost_warns_once_of_each() {
    let desk = Desk::new().await;
    let session = conversation(&desk).await;
    desk.provider.forget_all();
    desk.retriever.fail_next();
    desk.retriever.fail_next();

    let third = desk.ask(Some(session), "third").await;

    let warnings = desk.stored(&third).await.warnings;
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("no passages could be looked for"), "{warnings:?}");
    assert!(warnings[1].starts_with("the provider no longer knows"), "{warnings:?}");
}

#[tokio::test]
async fn bytes_that_a_lost_chain_did_not_save_are_not_counted_as_saved() {
    let desk = Desk::new().await;
    let session = conversation(&desk).await;
    desk.provider.forget_all();
    let (_, saved_before) = desk.orchestrator.bytes_sent_and_saved();

    let third = desk.ask(Some(session), "third").await;

    assert_eq!(desk.stored(&third).await.plan.unwrap().saved.bytes, 0);
    assert_eq!(desk.orchestrator.bytes_sent_and_saved().1, saved_before);
}

#[tokio::test]
async fn a_file_that_no_longer_fits_is_named_as_missing() {
    let chain = ChainKeeping::Nobody;
    let context = ContextSettings { live_tokens: 4, ..ContextSettings::default() };
    let desk = Desk::with(DeskSettings { chain, context, ..DeskSettings::default() }).await;
    let files = vec![file("large.rs", &"fn long() {}\n".repeat(9)), file("small.rs", "fn b() {}")];
    let shown = ExecuteRequest { active_files: files, ..asking(None, "first") };
    let first = desk.execute(shown).await.unwrap();

    let second = desk.ask(Some(first.session), "second").await;

    let sent = desk.sent().pop().unwrap().to_string();
    assert!(sent.contains("fn b() {}") && !sent.contains("fn long() {}"), "{sent}");
    let second = desk.stored(&second).await;
    let manifest = second.plan.unwrap().rehydrated.unwrap();
    assert_eq!((manifest.files.len(), manifest.files_left_out), (1, 1));
    assert_eq!(
        second.warnings,
        ["a file that was shown earlier does not fit any more and was left out"]
    );
}
