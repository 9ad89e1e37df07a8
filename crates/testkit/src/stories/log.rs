//! The log: ordered, unique, gapless, read from any position.

use std::sync::Arc;

use serde_json::json;
use skein_core::{
    model::{
        AskedTool, ChainDecision, ContextPlanned, Event, EventBody, FailureCode, Interface,
        Message, MessageCompleted, MessageContent, Mode, PermissionRequested, PermissionResolved,
        PlanStep, PlanUpdated, Role, Seq, SessionChange, SessionStateName, TextDelta, ToolChange,
        TurnEnded, TurnOpened, Usage,
    },
    ports::{ChangeSet, Clock, EventLimit, MessagePage, MessageRange, NewEvent, Storage},
};
use tokio::task::JoinSet;

use crate::{World, note};

pub async fn numbers_have_no_gap_under_many_writers_of_one_log(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let session = &world.session;
    let mut committers = JoinSet::new();
    for n in 0..32 {
        let texts: Vec<NewEvent> =
            (0..3).map(|part| world.message(session.log, &format!("{n}.{part}"))).collect();
        let (store, scope) = (Arc::clone(&world.store), world.as_owner());
        committers.spawn(async move {
            store.commit(&scope, appending(texts)).await.expect("a commit").events
        });
    }

    let mut acknowledged: Vec<Event> = Vec::new();
    for events in committers.join_all().await {
        assert_eq!(numbers(&events), (events[0].seq..).take(3).collect::<Vec<Seq>>());
        acknowledged.extend(events);
    }

    acknowledged.sort_by_key(|event| event.seq);
    let log = world.log(session.id).await;
    assert_eq!(numbers(&log), (1..=97).collect::<Vec<Seq>>());
    assert_eq!(log[1..], acknowledged);
}

pub async fn numbers_have_no_gap_under_many_writers_of_many_logs(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let mut sessions = Vec::new();
    for _ in 0..32 {
        sessions.push(world.open(world.draft_session()).await);
    }
    let mut committers = JoinSet::new();
    for session in &sessions {
        let commits: Vec<ChangeSet> = (0..4)
            .map(|n| appending(vec![world.message(session.log, &format!("message {n}"))]))
            .collect();
        let (store, scope) = (Arc::clone(&world.store), world.as_owner());
        committers.spawn(async move {
            for changes in commits {
                store.commit(&scope, changes).await.expect("a commit");
            }
        });
    }

    committers.join_all().await;

    for session in &sessions {
        let log = world.log(session.id).await;
        assert_eq!(numbers(&log), [1, 2, 3, 4, 5]);
        assert_eq!(texts(&log), ["message 0", "message 1", "message 2", "message 3"]);
    }
}

pub async fn one_change_set_can_append_to_two_logs(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let other = world.open(world.draft_session()).await;
    let events = vec![
        world.message(world.session.log, "a"),
        world.message(other.log, "b"),
        world.message(world.session.log, "c"),
    ];

    let committed = world.commit(appending(events)).await;

    assert_eq!(numbers(&committed.events), [2, 2, 3]);
    assert_eq!(texts(&world.log(world.session.id).await), ["a", "c"]);
    assert_eq!(texts(&world.log(other.id).await), ["b"]);
}

pub async fn two_writers_of_the_same_two_logs_do_not_block_each_other_for_ever(
    store: Arc<dyn Storage>,
) {
    let world = World::new(store).await;
    let other = world.open(world.draft_session()).await;
    let mut committers = JoinSet::new();
    for n in 0..32 {
        let mut logs = [world.session.log, other.log];
        if n % 2 == 0 {
            logs.reverse();
        }
        let changes = appending(logs.iter().map(|log| world.message(*log, "x")).collect());
        let (store, scope) = (Arc::clone(&world.store), world.as_owner());
        committers.spawn(async move { store.commit(&scope, changes).await.expect("a commit") });
    }

    committers.join_all().await;

    for session in [world.session.id, other.id] {
        assert_eq!(numbers(&world.log(session).await), (1..=33).collect::<Vec<Seq>>());
    }
}

pub async fn every_kind_of_event_is_read_back_as_it_was(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let turn = world.running_turn().await;
    let events: Vec<NewEvent> = every_body(&world)
        .into_iter()
        .map(|body| NewEvent {
            log: world.session.log,
            turn: Some(turn.id),
            at: world.clock.tick(),
            body,
        })
        .collect();

    let committed = world.commit(appending(events.clone())).await;

    let expected: Vec<Event> = (3..)
        .zip(events)
        .map(|(seq, new)| Event { log: new.log, seq, turn: new.turn, at: new.at, body: new.body })
        .collect();
    assert_eq!(committed.events, expected);
    assert_eq!(world.log(world.session.id).await[2..], expected);
}

pub async fn a_read_of_the_log_is_limited_by_count(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let events = (0..9).map(|n| world.message(world.session.log, &n.to_string())).collect();
    world.commit(appending(events)).await;
    let page = async |after, events| {
        let limit = EventLimit { events, bytes: usize::MAX };
        let listed =
            world.store.list_events(&world.as_owner(), world.session.id, after, limit).await;
        numbers(&listed.expect("a read"))
    };

    assert_eq!(page(0, 4).await, [1, 2, 3, 4]);
    assert_eq!(page(4, 4).await, [5, 6, 7, 8]);
    assert_eq!(page(8, 4).await, [9, 10]);
    assert_eq!(page(10, 4).await, [0; 0]);
    assert_eq!(page(1_000_000, 4).await, [0; 0]);
}

pub async fn a_read_of_the_log_is_limited_by_bytes_but_never_empty(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let text = "x".repeat(10_000);
    let events = (0..6).map(|_| world.message(world.session.log, &text)).collect();
    world.commit(appending(events)).await;
    let page = async |after, bytes| {
        let limit = EventLimit { events: 100, bytes };
        let listed =
            world.store.list_events(&world.as_owner(), world.session.id, after, limit).await;
        numbers(&listed.expect("a read"))
    };

    let tiny = page(1, 1).await;
    let some = page(1, 35_000).await;
    let all = page(1, 1_000_000).await;

    assert_eq!(tiny, [2]);
    assert!((2..=4).contains(&some.len()), "{some:?}");
    assert_eq!(some, all[..some.len()]);
    assert_eq!(all, [2, 3, 4, 5, 6, 7]);
}

pub async fn messages_are_read_in_ranges_from_either_end(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    // Messages at 2, 4, 6, 8, 10, and a delta that closes nothing after each of them.
    for n in 1..=5 {
        let message = world.message(world.session.log, &format!("m{n}"));
        let delta = note(world.session.log, world.clock.now(), delta(&world, "…"));
        world.commit(appending(vec![message, delta])).await;
    }
    let whole = MessageRange { after: 0, before: None, since: None };
    let read = async |range, page| {
        let listed =
            world.store.list_message_events(&world.as_owner(), world.session.id, range, page).await;
        numbers(&listed.expect("a read"))
    };

    let cases: [(MessageRange, MessagePage, &[Seq]); 9] = [
        (whole, MessagePage::First(100), &[2, 4, 6, 8, 10]),
        (whole, MessagePage::First(2), &[2, 4]),
        (whole, MessagePage::Last(2), &[8, 10]),
        (MessageRange { after: 4, ..whole }, MessagePage::First(2), &[6, 8]),
        (MessageRange { after: 5, ..whole }, MessagePage::Last(2), &[8, 10]),
        (MessageRange { before: Some(8), ..whole }, MessagePage::Last(2), &[4, 6]),
        (MessageRange { before: Some(9), ..whole }, MessagePage::First(9), &[2, 4, 6, 8]),
        (MessageRange { after: 2, before: Some(10), since: None }, MessagePage::Last(2), &[6, 8]),
        (MessageRange { after: 10, ..whole }, MessagePage::First(9), &[]),
    ];
    for (range, page, wanted) in cases {
        assert_eq!(read(range, page).await, wanted, "{range:?} {page:?}");
    }
}

pub async fn messages_since_a_moment_leave_that_moment_out(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let events: Vec<NewEvent> =
        (0..4).map(|n| world.message(world.session.log, &n.to_string())).collect();
    let second = events[1].at;
    world.commit(appending(events)).await;
    let read = async |after, page| {
        let range = MessageRange { after, before: None, since: Some(second) };
        let listed =
            world.store.list_message_events(&world.as_owner(), world.session.id, range, page).await;
        numbers(&listed.expect("a read"))
    };

    assert_eq!(read(0, MessagePage::First(100)).await, [4, 5]);
    assert_eq!(read(0, MessagePage::First(1)).await, [4]);
    assert_eq!(read(0, MessagePage::Last(1)).await, [5]);
    assert_eq!(read(4, MessagePage::Last(100)).await, [5]);
}

pub async fn what_closes_a_message_reads_as_that_message(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let events = every_body(&world)
        .into_iter()
        .map(|body| note(world.session.log, world.clock.tick(), body));
    let committed = world.commit(appending(events.collect())).await;

    let range = MessageRange { after: 0, before: None, since: None };
    let listed = world
        .store
        .list_message_events(&world.as_owner(), world.session.id, range, MessagePage::First(99))
        .await
        .expect("a read");

    let closed: Vec<Event> =
        committed.events.iter().filter(|event| event.message().is_some()).cloned().collect();
    assert_eq!(listed, closed);
    let roles: Vec<Role> =
        listed.iter().filter_map(Event::message).map(|message: Message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Agent, Role::System, Role::System, Role::System]);
}

pub async fn the_log_knows_its_newest_event(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let events =
        vec![world.message(world.session.log, "one"), world.message(world.session.log, "two")];

    let committed = world.commit(appending(events)).await;

    let found = world.store.find_session(&world.as_owner(), world.session.id).await;
    let log = found.expect("a read").expect("a stored session").log;
    assert_eq!((log.last_seq, log.last_at), (3, Some(committed.events[1].at)));
}

pub(super) fn appending(events: Vec<NewEvent>) -> ChangeSet {
    ChangeSet { events, ..ChangeSet::default() }
}

fn numbers(events: &[Event]) -> Vec<Seq> {
    events.iter().map(|event| event.seq).collect()
}

fn texts(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .filter_map(|event| match event.message()?.content {
            MessageContent::Text { text, .. } => Some(text),
            _ => None,
        })
        .collect()
}

fn delta(world: &World, text: &str) -> EventBody {
    EventBody::MessageDelta(TextDelta {
        message_id: world.message_id(),
        role: Some(Role::Agent),
        text: text.to_owned(),
    })
}

/// One event of every kind; five of them close a message.
fn every_body(world: &World) -> Vec<EventBody> {
    let change = SessionChange {
        state: SessionStateName::Active,
        revision: 7,
        reason: Some("a reason".to_owned()),
        interface: Some(Interface::Graphql),
        checkpoint_id: None,
        fields: vec!["name".to_owned()],
    };
    let opened = TurnOpened { sequence_number: 3, instruction: "do".to_owned(), mode: Mode::Edit };
    let ended = TurnEnded {
        sequence_number: 3,
        error_code: Some(FailureCode::Cancelled),
        errors: vec!["cancelled".to_owned()],
        warnings: vec!["late".to_owned()],
    };
    let tool = |status: &str| ToolChange {
        message_id: world.message_id(),
        tool_call_id: "call_1".to_owned(),
        tool: "grep".to_owned(),
        kind: "search".to_owned(),
        args: Some(json!({"pattern": "x"})),
        result: Some(json!([1, {"line": "x"}])),
        status: status.to_owned(),
    };
    let thought = TextDelta { message_id: world.message_id(), role: None, text: "hm".to_owned() };
    let step = PlanStep {
        content: "look".to_owned(),
        status: "pending".to_owned(),
        priority: "high".to_owned(),
    };
    let message = |role, content| {
        EventBody::MessageCompleted(MessageCompleted {
            message_id: world.message_id(),
            role,
            content,
        })
    };
    vec![
        EventBody::SessionCreated(change.clone()),
        EventBody::SessionUpdated(change.clone()),
        EventBody::SessionSuspended(change.clone()),
        EventBody::SessionResumed(change.clone()),
        EventBody::SessionCompleted(change.clone()),
        EventBody::SessionCancelled(change.clone()),
        EventBody::SessionFailed(change),
        EventBody::TurnCreated(opened.clone()),
        EventBody::TurnStarted(opened),
        EventBody::ContextPlanned(ContextPlanned {
            chain: ChainDecision::Continue,
            bytes_sent: u64::from(u32::MAX) * 8,
            bytes_saved: 0,
            files: 2,
            chunks: 3,
        }),
        delta(world, "one 🧶"),
        message(Role::User, MessageContent::user_text("hello")),
        message(
            Role::Agent,
            MessageContent::TextPayload {
                payload: world.payload_id(),
                partial: Some(false),
                interrupted: true,
            },
        ),
        message(
            Role::System,
            MessageContent::Error { message: "no".to_owned(), code: "internal".to_owned() },
        ),
        EventBody::ThoughtDelta(thought),
        EventBody::PlanUpdated(PlanUpdated { message_id: world.message_id(), steps: vec![step] }),
        EventBody::ToolStarted(tool("pending")),
        EventBody::ToolUpdated(tool("in_progress")),
        EventBody::ToolCompleted(tool("completed")),
        EventBody::PermissionRequested(PermissionRequested {
            request_id: "t.1".to_owned(),
            tool_call: AskedTool {
                tool_call_id: "call-1".to_owned(),
                tool: "Write a file".to_owned(),
                kind: "edit".to_owned(),
                args: None,
            },
            options: Vec::new(),
        }),
        EventBody::PermissionResolved(PermissionResolved {
            request_id: "t.1".to_owned(),
            option_id: None,
            by: "timeout".to_owned(),
        }),
        EventBody::UsageRecorded(Usage { input_tokens: u64::from(u32::MAX) * 8, output_tokens: 0 }),
        EventBody::TurnCompleted(TurnEnded {
            error_code: None,
            errors: Vec::new(),
            ..ended.clone()
        }),
        EventBody::TurnFailed(ended),
    ]
}
