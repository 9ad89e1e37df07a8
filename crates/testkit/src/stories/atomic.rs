//! A change set is applied whole or not at all, and a creating request is remembered once.

use std::sync::Arc;

use bytes::Bytes;
use skein_core::{
    model::{Event, Session, Sha256Hash, Token, Turn},
    ports::{
        ChangeSet, Clock, Conflict, Expectation, IdempotencyRecord, NewPayload, PayloadBody,
        Resource, ResourceKind, SessionRecord, Storage, StoreError, Write,
    },
};
use tokio::task::JoinSet;

use crate::{World, world::conflict};

pub async fn a_failing_write_leaves_nothing_of_its_change_set(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let finished = world.finish(&world.running_turn().await).await;
    let attempt = Attempt::new(&world);
    let before = attempt.observe(&world).await;

    let mut changes = attempt.changes(&world);
    changes.writes.push(Write::FinishTurn(Box::new(finished.clone())));
    let refused = world.conflict(changes).await;

    assert_eq!(refused, Conflict::TurnFinished(finished.id));
    assert_eq!(attempt.observe(&world).await, before);
}

pub async fn a_failing_expectation_leaves_nothing_of_its_change_set(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let attempt = Attempt::new(&world);
    let before = attempt.observe(&world).await;

    let changes = ChangeSet {
        expects: vec![Expectation::SessionRevision { session: world.session.id, revision: 99 }],
        ..attempt.changes(&world)
    };
    let refused = world.conflict(changes).await;

    assert_eq!(refused, Conflict::SessionChanged(world.session.id));
    assert_eq!(attempt.observe(&world).await, before);
}

pub async fn an_event_for_an_unknown_log_leaves_nothing_of_its_change_set(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let attempt = Attempt::new(&world);
    let before = attempt.observe(&world).await;

    let mut changes = attempt.changes(&world);
    changes.events.push(world.message(world.draft_session().log, "lost"));
    let refused = world.conflict(changes).await;

    assert!(matches!(refused, Conflict::Missing(_)), "{refused:?}");
    assert_eq!(attempt.observe(&world).await, before);
}

pub async fn a_used_key_leaves_nothing_of_its_change_set(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let attempt = Attempt::new(&world);
    world.commit(remembering(attempt.record.clone())).await;
    let before = attempt.observe(&world).await;

    let refused = world.conflict(attempt.changes(&world)).await;

    assert_eq!(refused, Conflict::IdempotencyKeyUsed);
    assert_eq!(attempt.observe(&world).await, before);
}

pub async fn a_change_set_that_failed_can_be_sent_again(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let running = world.running_turn().await;
    let attempt = Attempt::new(&world);
    let mut failing = attempt.changes(&world);
    failing.expects.push(Expectation::LogIdle { log: world.session.log });

    let refused = world.conflict(failing.clone()).await;
    world.finish(&running).await;
    let committed = world.commit(failing).await;

    assert_eq!(refused, Conflict::TurnRunning);
    assert_eq!(committed.turn_numbers, [2]);
    let seqs: Vec<u64> = committed.events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, [3, 4]);
    let seen = attempt.observe(&world).await;
    assert_eq!(seen.record, Some(attempt.record));
    assert_eq!(seen.tokens, [attempt.token]);
    assert!(seen.other_session.is_some());
}

pub async fn a_key_is_remembered_once_for_each_user(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let mine = record(&world, "key-1", "mine");
    let theirs = record(&world, "key-1", "theirs");

    world.commit(remembering(mine.clone())).await;
    let again = world.conflict(remembering(record(&world, "key-1", "again"))).await;
    let by_another = world.store.commit(&world.as_member(), remembering(theirs.clone())).await;
    by_another.expect("the same key of another user");

    assert_eq!(again, Conflict::IdempotencyKeyUsed);
    assert_eq!(find(&world, &world.as_owner(), "key-1").await, Some(mine));
    assert_eq!(find(&world, &world.as_member(), "key-1").await, Some(theirs));
    assert_eq!(find(&world, &world.as_owner(), "key-2").await, None);
    assert_eq!(find(&world, &world.as_owner(), "KEY-1").await, None);
}

pub async fn a_repeated_key_is_told_before_anything_else(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    world.commit(remembering(record(&world, "key", "body"))).await;
    world.running_turn().await;

    let changes = ChangeSet {
        expects: vec![Expectation::LogIdle { log: world.session.log }],
        ..remembering(record(&world, "key", "body"))
    };
    let refused = world.conflict(changes).await;

    assert_eq!(refused, Conflict::IdempotencyKeyUsed);
}

pub async fn of_many_requests_with_one_key_exactly_one_creates(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let mut requests = JoinSet::new();
    for _ in 0..16 {
        let session = world.draft_session();
        let changes = ChangeSet {
            idempotency: Some(IdempotencyRecord {
                resource: Resource { kind: ResourceKind::Session, id: *session.id.as_uuid() },
                ..record(&world, "key", "body")
            }),
            ..world.opening(&session)
        };
        let (store, scope) = (Arc::clone(&world.store), world.as_owner());
        requests.spawn(async move { (session, store.commit(&scope, changes).await) });
    }

    let mut created = Vec::new();
    for (session, result) in requests.join_all().await {
        match result {
            Ok(_) => created.push(session),
            Err(StoreError::Conflict(Conflict::IdempotencyKeyUsed)) => {
                let found = world.store.find_session(&world.as_owner(), session.id).await;
                assert_eq!(found.expect("a read"), None);
            }
            Err(other) => panic!("expected IdempotencyKeyUsed, got {other:?}"),
        }
    }

    let [winner] = &created[..] else { panic!("{} sessions were created", created.len()) };
    let kept = find(&world, &world.as_owner(), "key").await.expect("a record");
    assert_eq!(kept.resource.id, *winner.id.as_uuid());
}

pub async fn a_name_that_is_taken_is_a_conflict(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let token = world.token("laptop");
    let create = |token: &Token| crate::writing(vec![Write::CreateToken(token.clone())]);
    world.commit(create(&token)).await;

    let same_secret = Token { id: world.token("x").id, ..token.clone() };
    let conflicts = [
        world.conflict(create(&token)).await,
        world.conflict(create(&same_secret)).await,
        world.conflict(crate::writing(vec![Write::CreateUser(world.member.clone())])).await,
        world.conflict(crate::writing(vec![Write::CreateOrg(world.org.clone())])).await,
    ];

    for met in conflicts {
        assert!(matches!(met, Conflict::AlreadyExists(_)), "{met:?}");
    }
}

pub async fn a_commit_goes_on_when_its_caller_stops_waiting(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let session = world.draft_session();
    let (store, scope, changes) =
        (Arc::clone(&world.store), world.as_owner(), world.opening(&session));
    let mut impatient = JoinSet::new();
    impatient.spawn(async move { store.commit(&scope, changes).await });
    tokio::task::yield_now().await;
    impatient.abort_all();
    while impatient.join_next().await.is_some() {}

    // Whether or not the write had begun, the store is whole: the session is there with its event, or neither is.
    let found = world.store.find_session(&world.as_owner(), session.id).await.expect("a read");
    if found.is_none() {
        let retried = world.store.commit(&world.as_owner(), world.opening(&session)).await;
        match retried {
            Ok(_) => {}
            late => assert!(matches!(conflict(late), Conflict::AlreadyExists(_))),
        }
    }
    assert_eq!(world.log(session.id).await.len(), 1);
}

/// One change of every kind that a reader could see.
struct Attempt {
    other: Session,
    turn: Turn,
    token: Token,
    payload: Bytes,
    payload_row: NewPayload,
    record: IdempotencyRecord,
}

/// Everything that an [`Attempt`] could have left behind.
#[derive(Debug, PartialEq)]
struct Seen {
    session: Option<SessionRecord>,
    other_session: Option<SessionRecord>,
    turn: bool,
    tokens: Vec<Token>,
    payload: bool,
    events: Vec<Event>,
    record: Option<IdempotencyRecord>,
}

impl Attempt {
    fn new(world: &World) -> Self {
        let payload = Bytes::from_static(b"a body");
        Self {
            other: world.draft_session(),
            turn: world.queued_turn(&world.session),
            token: world.token("laptop"),
            payload_row: NewPayload {
                id: world.payload_id(),
                log: world.session.log,
                media_type: "text/plain".to_owned(),
                sha256: Sha256Hash::of(&payload),
                size_bytes: 6,
                body: PayloadBody::Inline(payload.clone()),
            },
            payload,
            record: record(world, "key", "body"),
        }
    }

    fn changes(&self, world: &World) -> ChangeSet {
        let edited = world.session.clone().edit(
            skein_core::model::Profile {
                name: Some("renamed".to_owned()),
                is_public: true,
                ..Default::default()
            },
            world.clock.now(),
        );
        let mut changes = world.opening(&self.other);
        changes.events.clear();
        changes.writes.extend([
            Write::SaveSession(Box::new(edited)),
            Write::CreateTurn { session: world.session.id, turn: Box::new(self.turn.clone()) },
            Write::CreateToken(self.token.clone()),
            Write::PutPayload(self.payload_row.clone()),
        ]);
        changes.events.extend([
            world.message(world.session.log, "one"),
            world.message(world.session.log, "two"),
        ]);
        changes.idempotency = Some(self.record.clone());
        changes
    }

    async fn observe(&self, world: &World) -> Seen {
        let (store, scope) = (&world.store, world.as_owner());
        let session = store.find_session(&scope, world.session.id).await.expect("a read");
        let other_session = store.find_session(&scope, self.other.id).await.expect("a read");
        let turn = store.find_turn(&scope, world.session.id, self.turn.id).await.expect("a read");
        let tokens = store.list_tokens(&scope, None, None, 99).await.expect("a read");
        let payload = store.find_payload(&scope, self.payload_row.id).await.expect("a read");
        if payload.is_some() {
            let body = store.payload_body(&scope, self.payload_row.id).await.expect("a read");
            assert_eq!(body, self.payload);
        }
        Seen {
            session,
            other_session,
            turn: turn.is_some(),
            tokens,
            payload: payload.is_some(),
            events: world.log(world.session.id).await,
            record: find(world, &scope, "key").await,
        }
    }
}

fn record(world: &World, key: &str, body: &str) -> IdempotencyRecord {
    IdempotencyRecord {
        key: key.to_owned(),
        fingerprint: Sha256Hash::of(body.as_bytes()),
        resource: Resource { kind: ResourceKind::Session, id: *world.session.id.as_uuid() },
        created_at: world.clock.tick(),
    }
}

fn remembering(record: IdempotencyRecord) -> ChangeSet {
    ChangeSet { idempotency: Some(record), ..ChangeSet::default() }
}

async fn find(
    world: &World,
    scope: &skein_core::model::Scope,
    key: &str,
) -> Option<IdempotencyRecord> {
    world.store.find_idempotency(scope, key).await.expect("a read")
}
