//! Bodies kept out of the turn row come back whole, or not at all.

use std::sync::Arc;

use bytes::Bytes;
use skein_core::{
    model::{LogId, PayloadId, PayloadMeta, Role, Sha256Hash},
    ports::{
        ChangeSet, Clock, Conflict, NewPayload, PAYLOAD_PART_BYTES, PayloadBody, Storage,
        StoreError, Write,
    },
};

use crate::{World, note, said, writing};

pub async fn an_inline_body_comes_back(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let largest: Vec<u8> = (0..PAYLOAD_PART_BYTES).map(|n| (n * 31 % 251) as u8).collect();
    let bodies = [Bytes::new(), Bytes::from_static(&[0, 0xff, 0xc3, 0x28]), Bytes::from(largest)];

    for body in bodies {
        let payload = inline(&world, body.clone());
        world.commit(writing(vec![Write::PutPayload(payload.clone())])).await;

        assert_eq!(meta(&world, payload.id).await, Some(described(&payload)));
        assert_eq!(whole(&world, payload.id).await.expect("a body"), body);
    }
}

pub async fn a_body_in_parts_comes_back_in_order(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let id = world.payload_id();
    let parts: Vec<Bytes> = [PAYLOAD_PART_BYTES, PAYLOAD_PART_BYTES, 17]
        .iter()
        .zip(1_u8..)
        .map(|(length, byte)| Bytes::from(vec![byte; *length]))
        .collect();
    let payload = NewPayload {
        id,
        sha256: Sha256Hash::of_parts(parts.iter().map(AsRef::as_ref)),
        size_bytes: parts.iter().map(|part| part.len() as u64).sum(),
        body: PayloadBody::Parts { count: 3 },
        ..inline(&world, Bytes::new())
    };

    for (part, body) in (0..3).zip(&parts).rev() {
        let put = Write::PutPayloadPart { payload: id, part, body: body.clone() };
        world.commit(writing(vec![put])).await;
    }
    assert_eq!(meta(&world, id).await, None);
    world.commit(writing(vec![Write::PutPayload(payload.clone())])).await;

    assert_eq!(meta(&world, id).await, Some(described(&payload)));
    assert_eq!(whole(&world, id).await.expect("a body"), parts.concat());
}

pub async fn a_part_that_is_put_again_stays_as_it_is(store: Arc<dyn Storage>) {
    let world = World::named(Arc::clone(&store), "Acme", 1).await;
    let other = World::named(store, "Globex", 2).await;
    let id = world.payload_id();
    let put = |body: &'static [u8]| Write::PutPayloadPart {
        payload: id,
        part: 3,
        body: Bytes::from_static(body),
    };

    world.commit(writing(vec![put(b"first")])).await;
    world.commit(writing(vec![put(b"again")])).await;

    let owner = world.as_owner();
    let part = |number: u32| world.store.payload_part(&owner, id, number);
    assert_eq!(part(3).await.expect("a read"), Some(Bytes::from_static(b"first")));
    assert_eq!(part(0).await.expect("a read"), None);
    let foreign = other.store.payload_part(&other.as_owner(), id, 3).await.expect("a read");
    assert_eq!(foreign, None);
}

pub async fn a_text_in_the_log_is_a_payload_without_being_stored_twice(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let answer = "an answer with \"quotes\", \\ and 🧶\n".repeat(50);
    let payload = NewPayload {
        sha256: Sha256Hash::of(answer.as_bytes()),
        size_bytes: answer.len() as u64,
        body: PayloadBody::EventText { event_index: 1 },
        ..inline(&world, Bytes::new())
    };

    world
        .commit(ChangeSet {
            writes: vec![Write::PutPayload(payload.clone())],
            events: vec![
                world.message(world.session.log, "something else"),
                note(
                    world.session.log,
                    world.clock.now(),
                    said(world.message_id(), Role::Agent, &answer),
                ),
            ],
            ..ChangeSet::default()
        })
        .await;

    assert_eq!(meta(&world, payload.id).await, Some(described(&payload)));
    assert_eq!(whole(&world, payload.id).await.expect("a body"), answer.as_bytes());
}

pub async fn a_text_in_the_log_of_a_new_session_is_a_payload_too(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let session = world.draft_session();
    let payload = NewPayload {
        log: session.log,
        sha256: Sha256Hash::of(b"hello"),
        size_bytes: 5,
        body: PayloadBody::EventText { event_index: 1 },
        ..inline(&world, Bytes::new())
    };
    let mut changes = world.opening(&session);
    changes.writes.push(Write::PutPayload(payload.clone()));
    changes.events.push(world.message(session.log, "hello"));

    world.commit(changes).await;

    assert_eq!(whole(&world, payload.id).await.expect("a body"), "hello");
}

pub async fn a_body_that_does_not_match_its_hash_is_corrupt(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let wrong = NewPayload {
        sha256: Sha256Hash::of(b"something else"),
        ..inline(&world, Bytes::from_static(b"a body"))
    };
    world.commit(writing(vec![Write::PutPayload(wrong.clone())])).await;

    let read = whole(&world, wrong.id).await;

    assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
}

pub async fn an_unknown_payload_is_missing(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let unknown = world.payload_id();

    let read = whole(&world, unknown).await;

    assert_eq!(meta(&world, unknown).await, None);
    assert!(matches!(read, Err(StoreError::Conflict(Conflict::Missing(_)))), "{read:?}");
    assert_eq!(readers(&world, unknown).await, []);
}

pub async fn a_payload_is_read_through_the_sessions_of_its_log(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    world.open(world.draft_session()).await;
    let payload = inline(&world, Bytes::from_static(b"a body"));

    world.commit(writing(vec![Write::PutPayload(payload.clone())])).await;

    assert_eq!(readers(&world, payload.id).await, [world.session.id]);
}

pub async fn a_payload_needs_a_log(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let log: LogId = world.draft_session().log;
    let payload = NewPayload { log, ..inline(&world, Bytes::from_static(b"a body")) };

    let refused = world.conflict(writing(vec![Write::PutPayload(payload.clone())])).await;

    assert!(matches!(refused, Conflict::Missing(_)), "{refused:?}");
    assert_eq!(meta(&world, payload.id).await, None);
}

pub async fn many_bodies_come_in_the_order_in_which_they_were_asked_for(store: Arc<dyn Storage>) {
    let world = World::named(Arc::clone(&store), "Acme", 1).await;
    let other = World::named(store, "Globex", 2).await;
    let [first, last] = [&b"first"[..], b"last"].map(|body| inline(&world, Bytes::from(body)));
    let foreign = inline(&other, Bytes::from_static(b"foreign"));
    let parts = [Bytes::from(vec![1; PAYLOAD_PART_BYTES]), Bytes::from_static(b"rest")];
    let in_parts = NewPayload {
        sha256: Sha256Hash::of_parts(parts.iter().map(AsRef::as_ref)),
        size_bytes: PAYLOAD_PART_BYTES as u64 + 4,
        body: PayloadBody::Parts { count: 2 },
        ..inline(&world, Bytes::new())
    };
    let said = NewPayload {
        body: PayloadBody::EventText { event_index: 0 },
        ..inline(&world, Bytes::from_static(b"said"))
    };
    let put_part = |(part, body): (u32, &Bytes)| Write::PutPayloadPart {
        payload: in_parts.id,
        part,
        body: body.clone(),
    };
    let mut writes: Vec<Write> = (0..).zip(&parts).map(put_part).collect();
    writes.extend([&first, &last, &in_parts, &said].map(|new| Write::PutPayload(new.clone())));
    let events = vec![world.message(world.session.log, "said")];
    world.commit(ChangeSet { writes, events, ..ChangeSet::default() }).await;
    other.commit(writing(vec![Write::PutPayload(foreign.clone())])).await;

    let unknown = world.payload_id();
    let wanted = [last.id, unknown, in_parts.id, foreign.id, said.id, first.id, last.id];
    let read = world.store.payload_bodies(&world.as_owner(), &wanted).await.expect("a read");
    let none = world.store.payload_bodies(&world.as_owner(), &[]).await.expect("a read");

    let expected: Vec<(PayloadId, Bytes)> = vec![
        (last.id, Bytes::from_static(b"last")),
        (in_parts.id, Bytes::from(parts.concat())),
        (said.id, Bytes::from_static(b"said")),
        (first.id, Bytes::from_static(b"first")),
        (last.id, Bytes::from_static(b"last")),
    ];
    assert_eq!(read, expected);
    assert_eq!(none, []);
}

pub async fn one_corrupt_body_of_many_is_told(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let whole = inline(&world, Bytes::from_static(b"a body"));
    let wrong = NewPayload { sha256: Sha256Hash::of(b"other"), ..whole.clone() };
    let wrong = NewPayload { id: world.payload_id(), ..wrong };
    let puts = [&whole, &wrong].map(|new| Write::PutPayload(new.clone()));
    world.commit(writing(puts.to_vec())).await;

    let read = world.store.payload_bodies(&world.as_owner(), &[whole.id, wrong.id]).await;

    assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
}

pub(super) fn inline(world: &World, body: Bytes) -> NewPayload {
    NewPayload {
        id: world.payload_id(),
        log: world.session.log,
        media_type: "text/plain; charset=utf-8".to_owned(),
        sha256: Sha256Hash::of(&body),
        size_bytes: body.len() as u64,
        body: PayloadBody::Inline(body),
    }
}

fn described(payload: &NewPayload) -> PayloadMeta {
    PayloadMeta {
        id: payload.id,
        log: payload.log,
        sha256: payload.sha256,
        size_bytes: payload.size_bytes,
        media_type: payload.media_type.clone(),
    }
}

async fn meta(world: &World, payload: PayloadId) -> Option<PayloadMeta> {
    world.store.find_payload(&world.as_owner(), payload).await.expect("a read")
}

async fn whole(world: &World, payload: PayloadId) -> Result<Bytes, StoreError> {
    world.store.payload_body(&world.as_owner(), payload).await
}

async fn readers(world: &World, payload: PayloadId) -> Vec<skein_core::model::SessionId> {
    world.store.payload_readers(&world.as_owner(), payload).await.expect("a read")
}
