//! What agents ask is kept until it is answered, once; sessions with a process of their own are found after a crash.

use std::sync::Arc;

use serde_json::json;
use skein_core::{
    model::{
        AskedTool, Permission, PermissionOption, PermissionState, Session, SystemScope, UserId,
    },
    ports::{Clock, Conflict, ResidentSession, Storage, StoreError, Write},
};

use crate::{World, world::writing};

pub async fn a_question_is_read_back_as_it_was(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let first = asked(&world, "t.1").await;
    let second = Permission { request_id: "t.2".to_owned(), ..first.clone() };
    world.commit(writing(vec![put(&first), put(&second)])).await;

    let (store, scope, session) = (&world.store, world.as_owner(), world.session.id);
    let found = store.find_permission(&scope, session, "t.1").await.expect("a read");
    assert_eq!(found, Some(first.clone()));
    assert_eq!(store.find_permission(&scope, session, "t.3").await.expect("a read"), None);
    let newest = store.list_permissions(&scope, session, 1).await.expect("a read");
    assert_eq!(newest, std::slice::from_ref(&second));
    let all = store.list_permissions(&scope, session, 9).await.expect("a read");
    assert_eq!(all, [first, second]);
}

pub async fn of_many_answers_to_one_question_exactly_one_is_kept(store: Arc<dyn Storage>) {
    let world = Arc::new(World::new(store).await);
    world.commit(writing(vec![put(&asked(&world, "t.1").await)])).await;
    let states = [PermissionState::Answered, PermissionState::Cancelled, PermissionState::TimedOut];

    let answers = states.into_iter().cycle().take(24).map(|state| {
        let world = Arc::clone(&world);
        async move {
            let settled = settle(&world, state, "t.1", Some(world.owner.id));
            world.store.commit(&world.as_owner(), writing(vec![settled])).await.map(|_| state)
        }
    });
    let outcomes = futures::future::join_all(answers).await;

    let kept: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
    assert_eq!(kept.len(), 1);
    for refused in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        let settled = Conflict::PermissionSettled("t.1".to_owned());
        assert!(matches!(refused, StoreError::Conflict(conflict) if *conflict == settled));
    }
    let stored = world.store.find_permission(&world.as_owner(), world.session.id, "t.1").await;
    let stored = stored.expect("a read").expect("the question");
    assert_eq!((&stored.state, stored.answered_by), (kept[0], Some(world.owner.id)));
}

pub async fn only_open_questions_are_listed_as_pending(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let first = asked(&world, "t.1").await;
    let open = Permission { request_id: "t.2".to_owned(), ..first.clone() };
    let taken = Permission {
        request_id: "t.3".to_owned(),
        state: PermissionState::Answered,
        ..first.clone()
    };
    world.commit(writing(vec![put(&first), put(&open), put(&taken)])).await;
    world.commit(writing(vec![settle(&world, PermissionState::TimedOut, "t.1", None)])).await;

    let (scope, session) = (world.as_owner(), world.session.id);
    let pending = world.store.list_pending_permissions(&scope, session).await;

    assert_eq!(pending.expect("a read"), [open]);
    let missing = settle(&world, PermissionState::Answered, "t.9", None);
    let refused = world.store.commit(&scope, writing(vec![missing])).await;
    assert!(matches!(refused, Err(StoreError::Conflict(Conflict::Missing("permission")))));
}

pub async fn sessions_with_a_process_are_found_while_they_are_at_work(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let resident = || Session { is_resident: true, ..world.draft_session() };
    let created = world.open(resident()).await;
    let active = world.open(resident()).await;
    let ended = world.open(resident()).await;
    let now = world.clock.now();
    for changed in
        [active.clone().activate(now).expect("active"), ended.cancel(None, now).expect("cancelled")]
    {
        world.commit(writing(vec![Write::SaveSession(Box::new(changed))])).await;
    }

    let system = || SystemScope::for_purpose("test");
    let listed = world.store.list_resident(system(), None, 10).await.expect("a read");

    let expected = |session: &Session| ResidentSession {
        org: session.org,
        session: session.id,
        owner: session.owner,
    };
    let mut both = [&created, &active].map(expected);
    both.sort_by_key(|resident| *resident.session.as_uuid());
    assert_eq!(listed, both);
    let rest = world.store.list_resident(system(), Some(both[0].session), 10).await;
    assert_eq!(rest.expect("a read"), both[1..]);
    let found = world.store.find_session(&world.as_owner(), created.id).await.expect("a read");
    assert_eq!(found.map(|record| record.session), Some(created));
}

/// A pending question of a new turn.
pub async fn asked(world: &World, request_id: &str) -> Permission {
    let turn = world.running_turn().await;
    Permission {
        session: world.session.id,
        request_id: request_id.to_owned(),
        turn: turn.id,
        tool_call: AskedTool {
            tool_call_id: "call-1".to_owned(),
            tool: "Write Zettel.md \u{1f9f6}".to_owned(),
            kind: "edit".to_owned(),
            args: Some(json!({"path": "Zettel.md"})),
        },
        options: vec![PermissionOption {
            option_id: "yes".to_owned(),
            name: "Yes".to_owned(),
            kind: "allow_once".to_owned(),
        }],
        state: PermissionState::Pending,
        answered_by: None,
        at: world.clock.now(),
    }
}

pub fn put(permission: &Permission) -> Write {
    Write::PutPermission(Box::new(permission.clone()))
}

fn settle(
    world: &World,
    state: PermissionState,
    request_id: &str,
    answered_by: Option<UserId>,
) -> Write {
    let (session, request_id) = (world.session.id, request_id.to_owned());
    Write::SettlePermission { session, request_id, state, answered_by }
}
