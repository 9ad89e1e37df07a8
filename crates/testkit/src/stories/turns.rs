//! Turns are numbered, start one at a time and finish once.

use std::{collections::BTreeSet, sync::Arc};

use skein_core::{
    model::{
        AccessVia, EventBody, FileFate, Mode, Sha256Hash, Turn, TurnFile, TurnId, TurnRequest,
        TurnStatus, User, UserRole,
    },
    ports::{
        ChangeSet, Conflict, Expectation, Ids, LastTurn, LimitKind, Storage, StoreError, TurnPage,
        TurnRecord, Write,
    },
};
use tokio::task::JoinSet;

use crate::{
    World,
    world::{creating, finishing, writing},
};

pub async fn turn_numbers_are_unique_and_in_log_order_under_concurrency(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let mut committers = JoinSet::new();
    for _ in 0..32 {
        let changes = creating(&world.queued_turn(&world.session));
        let (store, scope) = (Arc::clone(&world.store), world.as_owner());
        committers.spawn(async move { store.commit(&scope, changes).await.expect("a commit") });
    }

    let mut given = BTreeSet::new();
    for committed in committers.join_all().await {
        given.extend(committed.turn_numbers.clone());
        let EventBody::TurnCreated(opened) = &committed.events[0].body else {
            panic!("{:?}", committed.events)
        };
        assert_eq!([opened.sequence_number], committed.turn_numbers[..]);
    }

    assert_eq!(given, (1..=32).collect());
    let logged: Vec<u32> = world
        .log(world.session.id)
        .await
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::TurnCreated(opened) => Some(opened.sequence_number),
            _ => None,
        })
        .collect();
    assert_eq!(logged, (1..=32).collect::<Vec<u32>>());
}

pub async fn an_idle_log_is_required_where_it_is_expected(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let log = world.session.log;
    let running = world.running_turn().await;

    let busy = world.conflict(when_idle(&world)).await;
    let not_running = Expectation::NoTurnRunning { log };
    let running_one = world.conflict(expecting(not_running.clone())).await;
    world.finish(&running).await;
    let queued = world.begin(world.queued_turn(&world.session)).await;
    let still_busy = world.conflict(when_idle(&world)).await;
    world.commit(expecting(not_running)).await;
    world.finish(&queued).await;
    let idle = world.commit(when_idle(&world)).await;

    assert_eq!([busy, running_one, still_busy], [const { Conflict::TurnRunning }; 3]);
    assert_eq!(idle.turn_numbers, [3]);
}

pub async fn of_many_prompts_to_an_idle_session_exactly_one_wins(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let mut prompts = JoinSet::new();
    for _ in 0..16 {
        let changes = when_idle(&world);
        let (store, scope) = (Arc::clone(&world.store), world.as_owner());
        prompts.spawn(async move { store.commit(&scope, changes).await });
    }

    let mut won = 0;
    for result in prompts.join_all().await {
        match result {
            Ok(committed) => {
                assert_eq!(committed.turn_numbers, [1]);
                won += 1;
            }
            Err(StoreError::Conflict(Conflict::TurnRunning)) => {}
            Err(other) => panic!("expected TurnRunning, got {other:?}"),
        }
    }

    assert_eq!(won, 1);
    assert_eq!(pending(&world).await.len(), 1);
}

pub async fn the_queue_takes_no_more_than_its_limit(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let below_two = || ChangeSet {
        expects: vec![Expectation::PendingTurnsBelow { log: world.session.log, below: 2 }],
        ..creating(&world.queued_turn(&world.session))
    };

    let first = world.running_turn().await;
    let second = world.commit(below_two()).await;
    let third = world.conflict(below_two()).await;
    world.finish(&first).await;
    let fourth = world.commit(below_two()).await;

    assert_eq!(second.turn_numbers, [2]);
    assert_eq!(third, Conflict::LimitReached(LimitKind::QueuedTurns));
    assert_eq!(fourth.turn_numbers, [3]);
}

pub async fn a_turn_is_pending_or_queued_where_that_is_expected(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let running = world.running_turn().await;
    let queued = world.begin(world.queued_turn(&world.session)).await;
    let pending = |turn: &Turn| expecting(Expectation::TurnPending { turn: turn.id });
    let waiting = |turn: &Turn| expecting(Expectation::TurnQueued { turn: turn.id });

    for fulfilled in [pending(&running), pending(&queued), waiting(&queued)] {
        world.commit(fulfilled).await;
    }
    let started = world.conflict(waiting(&running)).await;
    world.finish(&running).await;
    let finished =
        [world.conflict(pending(&running)).await, world.conflict(waiting(&running)).await];

    assert_eq!(started, Conflict::TurnStarted(running.id));
    assert_eq!(finished, [Conflict::TurnFinished(running.id), Conflict::TurnFinished(running.id)]);
}

pub async fn a_queued_turn_starts_once_and_only_when_no_other_runs(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let running = world.running_turn().await;
    let queued = world.begin(world.queued_turn(&world.session)).await;
    let at = world.clock.tick();
    let start = || writing(vec![Write::StartTurn { turn: queued.id, at }]);

    let while_busy = world.conflict(start()).await;
    world.finish(&running).await;
    world.commit(start()).await;
    let twice = world.conflict(start()).await;
    let started = find(&world, queued.id).await;
    world.finish(&queued).await;
    let after_its_end = world.conflict(start()).await;

    assert_eq!(while_busy, Conflict::TurnRunning);
    assert_eq!(twice, Conflict::TurnStarted(queued.id));
    assert_eq!(after_its_end, Conflict::TurnFinished(queued.id));
    assert_eq!(
        started.turn,
        Turn { started_at: Some(at), dispatched_at: Some(at), ..queued.clone() }
    );
}

pub async fn a_second_running_turn_is_refused(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    world.running_turn().await;

    let second = world.conflict(creating(&world.started_turn(&world.session))).await;

    assert_eq!(second, Conflict::TurnRunning);
    assert_eq!(pending(&world).await.len(), 1);
}

pub async fn a_turn_finishes_once_and_is_kept_field_by_field(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let begun = world.begin(full(&world)).await;
    assert_eq!(find(&world, begun.id).await.turn, begun);

    let warned = Turn { warnings: vec!["slow".to_owned(), "ünïcode".to_owned()], ..begun };
    let answered = world.finish(&warned).await;
    let late = world.conflict(finishing(&world.failed(&warned))).await;

    assert_eq!(late, Conflict::TurnFinished(answered.id));
    assert_eq!(
        find(&world, answered.id).await,
        TurnRecord { turn: answered, created_by_name: "Olga Owner".to_owned() }
    );
}

pub async fn a_failed_turn_keeps_its_code_and_its_errors(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let failed = world.failed(&world.running_turn().await);

    world.commit(finishing(&failed)).await;
    let late = world.conflict(finishing(&failed)).await;

    assert_eq!(find(&world, failed.id).await.turn, failed);
    assert_eq!(late, Conflict::TurnFinished(failed.id));
}

pub async fn of_many_outcomes_of_one_turn_exactly_one_is_kept(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let turn = world.running_turn().await;
    let mut outcomes = JoinSet::new();
    for n in 0..16 {
        let outcome = if n % 2 == 0 { world.answered(&turn) } else { world.failed(&turn) };
        let (store, scope) = (Arc::clone(&world.store), world.as_owner());
        outcomes.spawn(async move {
            let result = store.commit(&scope, finishing(&outcome)).await;
            (outcome, result)
        });
    }

    let mut kept = Vec::new();
    for (outcome, result) in outcomes.join_all().await {
        match result {
            Ok(_) => kept.push(outcome),
            Err(StoreError::Conflict(Conflict::TurnFinished(id))) if id == turn.id => {}
            Err(other) => panic!("expected TurnFinished, got {other:?}"),
        }
    }

    let [kept] = &kept[..] else { panic!("{} outcomes were kept", kept.len()) };
    assert_eq!(&find(&world, turn.id).await.turn, kept);
}

pub async fn turns_are_paged_from_either_end(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let mut turns = Vec::new();
    for _ in 0..7 {
        turns.push(world.begin(world.queued_turn(&world.session)).await);
    }

    let pages = [
        (TurnPage::After(0), 3, 1..=3),
        (TurnPage::After(3), 3, 4..=6),
        (TurnPage::After(6), 3, 7..=7),
        (TurnPage::Before(8), 3, 5..=7),
        (TurnPage::Before(5), 3, 2..=4),
        (TurnPage::Before(2), 3, 1..=1),
        (TurnPage::Last, 2, 6..=7),
        (TurnPage::Last, 100, 1..=7),
    ];
    for (page, limit, numbers) in pages {
        let listed = world.store.list_turns(&world.as_owner(), world.session.id, page, limit).await;

        let listed: Vec<Turn> =
            listed.expect("a read").into_iter().map(|record| record.turn).collect();
        let wanted: Vec<Turn> =
            turns.iter().filter(|turn| numbers.contains(&turn.number)).cloned().collect();
        assert_eq!(listed, wanted, "{page:?} of {limit}");
    }
    for empty in [TurnPage::After(7), TurnPage::Before(1), TurnPage::Before(0)] {
        let listed = world.store.list_turns(&world.as_owner(), world.session.id, empty, 3).await;
        assert_eq!(listed.expect("a read"), [], "{empty:?}");
    }
}

pub async fn a_turn_is_found_only_through_a_session_that_reads_it(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let turn = world.running_turn().await;
    let other = world.open(world.draft_session()).await;

    let through_its_own = world.store.find_turn(&world.as_owner(), world.session.id, turn.id).await;
    let through_another = world.store.find_turn(&world.as_owner(), other.id, turn.id).await;
    let anywhere = world.store.find_turn_anywhere(&world.as_owner(), turn.id).await;
    let unknown = TurnId::from_uuid(world.ids.next());
    let nowhere = world.store.find_turn_anywhere(&world.as_owner(), unknown).await;
    let not_there = world.store.find_turn(&world.as_owner(), world.session.id, unknown).await;

    assert_eq!(through_its_own.expect("a read").map(|record| record.turn), Some(turn.clone()));
    assert_eq!(anywhere.expect("a read").map(|record| record.turn), Some(turn));
    assert_eq!(nowhere.expect("a read"), None);
    assert_eq!(through_another.expect("a read"), None);
    assert_eq!(not_there.expect("a read"), None);
}

pub async fn pending_turns_are_listed_in_their_order(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let first = world.running_turn().await;
    let second = world.begin(world.queued_turn(&world.session)).await;
    let third = world.begin(world.queued_turn(&world.session)).await;

    let all = pending(&world).await;
    world.finish(&second).await;
    let without_the_second = pending(&world).await;

    assert_eq!(all, [first.clone(), second, third.clone()]);
    assert_eq!(without_the_second, [first, third]);
}

pub async fn the_newest_turn_is_shown_with_its_session(store: Arc<dyn Storage>) {
    let world = World::new(store).await;

    let first = world.running_turn().await;
    assert_eq!(glance(&world).await, (1, last(&first, TurnStatus::Pending)));
    let second = world.begin(world.queued_turn(&world.session)).await;
    world.finish(&first).await;
    assert_eq!(glance(&world).await, (2, last(&second, TurnStatus::Pending)));
    let answered = world.finish(&second).await;
    assert_eq!(glance(&world).await, (2, last(&answered, TurnStatus::Completed)));
}

pub async fn whoever_creates_a_turn_takes_part(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let guest: User = world.draft_user("Gus Guest", UserRole::Member);
    world.commit(writing(vec![Write::CreateUser(guest.clone())])).await;
    let access = async |scope| {
        let found = world.store.find_session(&scope, world.session.id).await.expect("a read");
        found.expect("a stored session").access
    };
    let as_guest = skein_core::model::Scope::on_behalf_of(world.org.id, guest.id);
    assert_eq!(access(as_guest.clone()).await, None);

    for creator in [guest.id, guest.id, world.owner.id] {
        let turn = Turn { created_by: creator, ..world.queued_turn(&world.session) };
        world.begin(turn).await;
    }

    assert_eq!(access(as_guest).await, Some(AccessVia::TookPart));
    assert_eq!(access(world.as_owner()).await, Some(AccessVia::Owner));
}

/// A turn with every field filled in.
fn full(world: &World) -> Turn {
    let turn = world.started_turn(&world.session);
    let file = |path: &str, fate| TurnFile {
        path: path.to_owned(),
        sha256: Sha256Hash::of(path.as_bytes()),
        size_bytes: 102_401,
        is_touched: true,
        is_open: false,
        is_named: true,
        fate,
        reason: "as a test wants it".to_owned(),
    };
    Turn {
        request: TurnRequest {
            mode: Mode::Edit,
            model: Some("model-1".to_owned()),
            temperature: Some(0.3),
            previous_response_id: Some("resp_0".to_owned()),
            request_payload: Some(world.payload_id()),
            rerun_of: Some(TurnId::from_uuid(world.ids.next())),
            workspace_id: Some("ws-1".to_owned()),
            repo: Some("skein".to_owned()),
            language: Some("de".to_owned()),
            scope_paths: vec!["src/**".to_owned()],
            files: vec![
                file("src/z.rs", FileFate::TooLarge),
                file("src/a.rs", FileFate::Sent),
                file("logo.png", FileFate::Binary),
            ],
            inputs: Some(world.payload_id()),
            ..turn.request
        },
        warnings: vec!["a file was left out".to_owned()],
        ..turn
    }
}

fn expecting(expectation: Expectation) -> ChangeSet {
    ChangeSet { expects: vec![expectation], ..ChangeSet::default() }
}

/// A prompt that is refused while the session is busy.
fn when_idle(world: &World) -> ChangeSet {
    ChangeSet {
        expects: vec![Expectation::LogIdle { log: world.session.log }],
        ..creating(&world.started_turn(&world.session))
    }
}

fn last(turn: &Turn, status: TurnStatus) -> Option<LastTurn> {
    Some(LastTurn { id: turn.id, status, at: turn.status_at() })
}

async fn glance(world: &World) -> (u32, Option<LastTurn>) {
    let found = world.store.find_session(&world.as_owner(), world.session.id).await;
    let log = found.expect("a read").expect("a stored session").log;
    (log.turn_count, log.last_turn)
}

async fn find(world: &World, turn: TurnId) -> TurnRecord {
    let found = world.store.find_turn(&world.as_owner(), world.session.id, turn).await;
    found.expect("a read").expect("a stored turn")
}

async fn pending(world: &World) -> Vec<Turn> {
    world
        .store
        .list_pending_turns(&world.as_owner(), world.session.id)
        .await
        .expect("the pending turns")
}
