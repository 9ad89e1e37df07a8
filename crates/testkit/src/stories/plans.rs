//! What a turn gave to its agent is kept with the turn, and can be made anew until the turn ends.

use std::sync::Arc;

use skein_core::{
    model::{
        ChainDecision, ChainPlan, ChainReason, ChunkDifference, ChunkFate, EventBody, FailureCode,
        FileFate, HistoryForm, LiveChain, Manifest, ManifestItem, ManifestTurn, SendPlan,
        Sha256Hash, SystemScope, Turn, TurnChunk, TurnEnded, TurnFile, TurnId, TurnRequest,
        TurnState, Volume,
    },
    ports::{Clock, Conflict, Ids, NewEvent, PendingTurn, Storage, TurnPage, UsageSubject, Write},
};

use super::chains::{advancing, chain, file_item, view};
use crate::{
    World,
    world::{creating, finishing, writing},
};

pub async fn a_plan_is_read_back_as_it_was_with_its_chunks_in_their_order(store: Arc<dyn Storage>) {
    let world = World::new(store).await;

    let begun = world.begin(planned(&world)).await;

    let (store, scope, session) = (&world.store, world.as_owner(), world.session.id);
    let found = store.find_turn(&scope, session, begun.id).await.expect("a read");
    assert_eq!(found.expect("a stored turn").turn, begun);
    let anywhere = store.find_turn_anywhere(&scope, begun.id).await.expect("a read");
    assert_eq!(anywhere.expect("a stored turn").turn, begun);
    let pending = store.list_pending_turns(&scope, session).await.expect("a read");
    assert_eq!(pending, [begun]);
}

pub async fn turns_with_and_without_plans_are_listed_together(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let bare = world.running_turn().await;
    let waiting = |turn: Turn| Turn { started_at: None, dispatched_at: None, ..turn };
    let full = world.begin(waiting(planned(&world))).await;
    let mut without_chunks = waiting(planned(&world));
    without_chunks.plan = Some(Box::new(SendPlan { chunks: Vec::new(), ..plan(&world) }));
    without_chunks.request.files.clear();
    let without_chunks = world.begin(without_chunks).await;
    let other = world.begin(waiting(planned(&world))).await;

    for (page, limit, expected) in [
        (TurnPage::After(0), 9, vec![&bare, &full, &without_chunks, &other]),
        (TurnPage::Last, 2, vec![&without_chunks, &other]),
        (TurnPage::Before(3), 9, vec![&bare, &full]),
    ] {
        let listed = world.store.list_turns(&world.as_owner(), world.session.id, page, limit).await;

        let listed = listed.expect("a read");
        assert_eq!(listed.iter().map(|record| &record.turn).collect::<Vec<_>>(), expected);
    }
    let pending = world.store.list_pending_turns(&world.as_owner(), world.session.id).await;
    assert_eq!(pending.expect("a read"), [bare, full, without_chunks, other]);
}

pub async fn a_plan_is_made_anew_while_its_turn_is_pending(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let mut queued = world.queued_turn(&world.session);
    queued.request.files = vec![file("b.rs", FileFate::Waiting), file("a.rs", FileFate::Waiting)];
    queued.request.inputs = Some(world.payload_id());
    let queued = world.begin(queued).await;

    let mut first = queued.clone();
    first.request.files = vec![file("b.rs", FileFate::Sent), file("a.rs", FileFate::Unchanged)];
    first.request.model = Some("model-2".to_owned());
    first.request.temperature = Some(1.25);
    first.request.previous_response_id = Some("resp_7".to_owned());
    first.request.request_payload = Some(world.payload_id());
    first.warnings = vec!["the chain was lost".to_owned()];
    first.plan = Some(Box::new(plan(&world)));
    world.commit(writing(vec![Write::PlanTurn(Box::new(first.clone()))])).await;
    assert_eq!(find(&world, queued.id).await, first);

    let mut second = first.clone();
    second.request.previous_response_id = None;
    let mut again = plan(&world);
    again.chunks.remove(0);
    again.sent.bytes = 1;
    second.plan = Some(Box::new(again));
    world.commit(writing(vec![Write::PlanTurn(Box::new(second.clone()))])).await;
    assert_eq!(find(&world, queued.id).await, second);

    let unplanned = Turn { plan: None, ..second };
    world.commit(writing(vec![Write::PlanTurn(Box::new(unplanned.clone()))])).await;
    assert_eq!(find(&world, queued.id).await, unplanned);
}

pub async fn a_plan_of_a_finished_turn_stays_as_it_is(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let finished = world.finish(&world.begin(planned(&world)).await).await;
    let late = Turn { plan: None, state: TurnState::Pending, ..finished.clone() };
    let unknown = Turn { id: TurnId::from_uuid(world.ids.next()), ..late.clone() };

    let refused = world.conflict(writing(vec![Write::PlanTurn(Box::new(late))])).await;
    let missing = world.conflict(writing(vec![Write::PlanTurn(Box::new(unknown))])).await;

    assert_eq!(refused, Conflict::TurnFinished(finished.id));
    assert_eq!(missing, Conflict::Missing("turn"));
    assert_eq!(find(&world, finished.id).await, finished);
}

pub async fn only_files_of_the_turn_can_be_decided_on(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let begun = world.begin(planned(&world)).await;
    let mut changed = begun.clone();
    changed.request.files.push(file("another.rs", FileFate::Sent));

    let refused = world.conflict(writing(vec![Write::PlanTurn(Box::new(changed))])).await;

    assert_eq!(refused, Conflict::Missing("turn file"));
    assert_eq!(find(&world, begun.id).await, begun);
}

pub async fn an_answer_keeps_its_bundle(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let mut answered = world.answered(&world.begin(planned(&world)).await);
    let bundle = world.payload_id();
    if let TurnState::Completed(answer) = &mut answered.state {
        answer.bundle = Some(bundle);
    }

    world.commit(finishing(&answered)).await;

    assert_eq!(find(&world, answered.id).await, answered);
}

pub async fn a_response_that_was_noted_is_seen_by_recovery(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let turn = world.running_turn().await;
    let note = |position| {
        let (turn, response_id) = (turn.id, "resp_1".to_owned());
        writing(vec![Write::NoteResponse { turn, response_id, position }])
    };
    let seen = async || -> Option<(String, Option<u64>)> {
        let system = SystemScope::for_purpose("test");
        let listed = world.store.list_pending(system, None, 9).await.expect("a page");
        let [PendingTurn { response, .. }] = &listed[..] else { panic!("{listed:?}") };
        response.clone()
    };

    assert_eq!(seen().await, None);
    world.commit(note(None)).await;
    assert_eq!(seen().await, Some(("resp_1".to_owned(), None)));
    world.commit(note(Some(41))).await;
    assert_eq!(seen().await, Some(("resp_1".to_owned(), Some(41))));
    world.finish(&turn).await;
    assert_eq!(world.conflict(note(Some(42))).await, Conflict::TurnFinished(turn.id));
}

pub async fn a_turn_that_begins_and_fails_at_once_has_its_number_in_both_events(
    store: Arc<dyn Storage>,
) {
    let world = World::new(store).await;
    world.finish(&world.running_turn().await).await;
    let turn = planned(&world);
    let failed = world.failed(&turn);
    let mut changes = creating(&turn);
    changes.writes.push(Write::FinishTurn(Box::new(failed.clone())));
    changes.events.push(NewEvent {
        log: turn.log,
        turn: Some(turn.id),
        at: failed.status_at(),
        body: EventBody::TurnFailed(TurnEnded {
            sequence_number: 0,
            error_code: Some(FailureCode::ProviderError),
            errors: vec!["no".to_owned()],
            warnings: Vec::new(),
        }),
    });

    let committed = world.commit(changes).await;

    let stored = world.log(world.session.id).await;
    assert_eq!(stored[stored.len() - 2..], committed.events);
    let numbers: Vec<u32> = committed
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::TurnCreated(opened) => Some(opened.sequence_number),
            EventBody::TurnFailed(ended) => Some(ended.sequence_number),
            _ => None,
        })
        .collect();
    assert_eq!(numbers, [2, 2]);
    assert_eq!(find(&world, turn.id).await, Turn { number: 2, ..failed });
}

pub async fn purging_a_session_removes_its_plans_its_chain_and_its_tokens(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let doomed = world.open(world.draft_session()).await;
    let turn = Turn {
        log: doomed.log,
        request: TurnRequest { conversation: doomed.id, ..planned(&world).request },
        ..planned(&world)
    };
    let finished = world.finish(&world.begin(turn).await).await;
    let live: LiveChain = chain(&finished, 1);
    let items = vec![file_item(&world, "a.rs")];
    world.commit(advancing(doomed.log, live, items)).await;
    let used = async |by| world.store.tokens_used(&world.as_owner(), by, 0).await.expect("a read");
    assert_eq!(used(UsageSubject::Log(doomed.log)).await, 46);

    world.commit(writing(vec![Write::PurgeSession { session: doomed.id }])).await;

    assert_eq!(view(&world, doomed.log, &["a.rs"], &[]).await, None);
    let items = world.store.chain_items(&world.as_owner(), doomed.log, 1, 9).await;
    assert_eq!(items.expect("a read"), []);
    let found = world.store.find_turn_anywhere(&world.as_owner(), finished.id).await;
    assert_eq!(found.expect("a read"), None);
    assert_eq!(used(UsageSubject::Log(doomed.log)).await, 0);
    // What was used stays used.
    assert_eq!(used(UsageSubject::Org).await, 46);
    assert_eq!(used(UsageSubject::User(world.owner.id)).await, 46);
}

/// A running turn of the world's own session with files and a plan, not stored yet.
pub fn planned(world: &World) -> Turn {
    let turn = world.started_turn(&world.session);
    Turn {
        request: TurnRequest {
            model: Some("model-1".to_owned()),
            previous_response_id: Some("resp_0".to_owned()),
            request_payload: Some(world.payload_id()),
            files: vec![file("src/z.rs", FileFate::Sent), file("src/a.rs", FileFate::Unchanged)],
            ..turn.request
        },
        plan: Some(Box::new(plan(world))),
        ..turn
    }
}

/// A plan with every field filled in.
fn plan(world: &World) -> SendPlan {
    let item = |item: &str| ManifestItem {
        item: item.to_owned(),
        content_hash: Sha256Hash::of(item.as_bytes()),
        size_bytes: 77,
        texts: world.payload_id(),
    };
    let turn = |sequence_number, form| ManifestTurn {
        turn_id: TurnId::from_uuid(world.ids.next()),
        sequence_number,
        form,
    };
    SendPlan {
        chain: ChainPlan {
            decision: ChainDecision::Rehydrate,
            reason: ChainReason::Expired,
            number: 2,
            previous_response_id: Some("resp_0".to_owned()),
            expires_at: Some(world.clock.now()),
            history_bytes: 5_000_000_001,
        },
        chunks: vec![
            chunk("zz-1", ChunkFate::New, 0.912_345_678_901_234_5),
            chunk("aa-2", ChunkFate::AlreadyInChain, -1.5),
            chunk("mm-3", ChunkFate::OverBudget, 0.0),
        ],
        difference: ChunkDifference {
            added: vec!["zz-1".to_owned()],
            removed: vec!["bb-9".to_owned()],
            kept: vec!["aa-2".to_owned(), "mm-3".to_owned()],
        },
        sent: Volume { bytes: 5_000_000_000, tokens: 1_250_000_000 },
        saved: Volume { bytes: 1_024, tokens: 256 },
        rehydrated: Some(Manifest {
            turns: vec![turn(1, HistoryForm::Summary), turn(2, HistoryForm::Whole)],
            files: vec![item("src/z.rs")],
            chunks: vec![item("zz-1")],
            turns_left_out: 3,
            files_left_out: 2,
            chunks_left_out: 1,
            sent: Volume { bytes: 900, tokens: 225 },
        }),
        texts: Some(world.payload_id()),
    }
}

fn chunk(id: &str, fate: ChunkFate, score: f64) -> TurnChunk {
    TurnChunk {
        chunk_id: id.to_owned(),
        path: format!("src/{id} 🧶.rs"),
        start_line: 10,
        end_line: 19,
        sha256: Sha256Hash::of(id.as_bytes()),
        size_bytes: 1_234,
        score,
        fate,
        reason: "as a test wants it".to_owned(),
    }
}

fn file(path: &str, fate: FileFate) -> TurnFile {
    TurnFile {
        path: path.to_owned(),
        sha256: Sha256Hash::of(path.as_bytes()),
        size_bytes: 10,
        is_touched: true,
        is_open: true,
        is_named: false,
        fate,
        reason: format!("it is {fate}"),
    }
}

async fn find(world: &World, turn: TurnId) -> Turn {
    let found = world.store.find_turn(&world.as_owner(), world.session.id, turn).await;
    found.expect("a read").expect("a stored turn").turn
}
