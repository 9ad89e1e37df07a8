//! What Skein does for itself, across tenants.

use std::sync::Arc;

use bytes::Bytes;
use skein_core::{
    model::{
        AgentContext, AgentContextId, Binding, ConversationContext, ConversationSpec, Org, OrgId,
        Scope, Session, Sha256Hash, SystemScope, Timestamp, Turn, User, UserRole, VersionSpec,
    },
    ports::{
        ChangeSet, Clock, Conflict, IdempotencyRecord, Ids, NewPayload, PayloadBody, PendingTurn,
        Resource, ResourceKind, Storage, Write,
    },
};
use tokio::task::JoinSet;

use super::payloads::inline;
use crate::{SeededIds, World, writing};

pub async fn pending_turns_of_all_orgs_are_paged_in_the_order_of_their_ids(
    store: Arc<dyn Storage>,
) {
    let acme = World::named(Arc::clone(&store), "Acme", 1).await;
    let globex = World::named(Arc::clone(&store), "Globex", 2).await;
    let mut expected = Vec::new();
    for world in [&acme, &globex] {
        let second = world.open(world.draft_session()).await;
        for session in [&world.session, &second] {
            let running = world.begin(world.started_turn(session)).await;
            let queued = world.begin(world.queued_turn(session)).await;
            let done = world.begin(world.queued_turn(session)).await;
            world.finish(&done).await;
            expected.extend([running, queued].map(|turn| pending(world, &turn)));
        }
    }
    expected.sort_by_key(|turn| turn.turn);

    let mut seen: Vec<PendingTurn> = Vec::new();
    loop {
        let after = seen.last().map(|turn| turn.turn);
        let page = store.list_pending(system(), after, 3).await.expect("a page");
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 3);
        seen.extend(page);
    }

    assert_eq!(seen, expected);
}

pub async fn paging_goes_on_after_a_turn_that_was_finished_meanwhile(store: Arc<dyn Storage>) {
    let world = World::new(Arc::clone(&store)).await;
    let first = world.running_turn().await;
    let second = world.begin(world.queued_turn(&world.session)).await;

    let page = store.list_pending(system(), None, 1).await.expect("a page");
    world.finish(&first).await;
    let rest = store.list_pending(system(), Some(first.id), 10).await.expect("a page");

    assert_eq!(page, [pending(&world, &first)]);
    assert_eq!(rest, [pending(&world, &second)]);
}

pub async fn an_org_is_found_by_its_id(store: Arc<dyn Storage>) {
    let acme = World::named(Arc::clone(&store), "Acme", 1).await;
    let globex = World::named(Arc::clone(&store), "Globex", 2).await;
    let unknown = OrgId::from_uuid(acme.ids.next());

    for (org, expected) in [
        (acme.org.id, Some(acme.org.clone())),
        (globex.org.id, Some(globex.org.clone())),
        (unknown, None),
    ] {
        assert_eq!(store.find_org(system(), org).await.expect("a read"), expected);
    }
}

pub async fn an_org_can_be_made_in_another_orgs_scope(store: Arc<dyn Storage>) {
    let world = World::new(Arc::clone(&store)).await;
    let initech = Org { id: OrgId::from_uuid(world.ids.next()), name: "Initech".to_owned() };
    let record = IdempotencyRecord {
        key: "key".to_owned(),
        fingerprint: Sha256Hash::of(b"body"),
        resource: Resource { kind: ResourceKind::Org, id: *initech.id.as_uuid() },
        created_at: world.clock.now(),
    };
    let creation = ChangeSet {
        writes: vec![Write::CreateOrg(initech.clone())],
        audit: vec![world.audit("org.created")],
        idempotency: Some(record.clone()),
        ..ChangeSet::default()
    };
    let there = Scope::on_behalf_of(initech.id, world.owner.id);

    world.commit(creation).await;
    store.seal_audit(system()).await.expect("a seal");

    assert_eq!(store.find_org(system(), initech.id).await.expect("a read"), Some(initech.clone()));
    assert_eq!(store.org_name(&there).await.expect("a name"), "Initech");
    // What was done is on record where it was done.
    let here = store.find_idempotency(&world.as_owner(), "key").await.expect("a read");
    assert_eq!(here, Some(record));
    assert_eq!(store.find_idempotency(&there, "key").await.expect("a read"), None);
    let rows = store.list_audit(&world.as_owner(), 1, 9).await.expect("audit rows");
    assert_eq!(rows.iter().map(|row| row.action.as_str()).collect::<Vec<_>>(), ["org.created"]);
    assert_eq!(store.list_audit(&there, 0, 9).await.expect("audit rows"), []);
    // Nothing else can be put into it from outside.
    let user = User { org: initech.id, ..world.draft_user("Ina", UserRole::Owner) };
    let refused = world.conflict(writing(vec![Write::CreateUser(user.clone())])).await;
    assert_eq!(refused, Conflict::Missing("org"));
    let again = world.conflict(writing(vec![Write::CreateOrg(initech)])).await;
    assert_eq!(again, Conflict::AlreadyExists("org"));
    store.commit(&there, writing(vec![Write::CreateUser(user)])).await.expect("a first user");
}

pub async fn agents_keep_their_ids_and_grow_a_version_with_each_change(store: Arc<dyn Storage>) {
    let ids = SeededIds::new(7);
    let register = async |agents: &[(&str, &str)]| {
        let proposed = agents.iter().map(|(name, spec)| {
            let id = AgentContextId::from_uuid(ids.next());
            (AgentContext { id, name: (*name).to_owned(), version: 1 }, (*spec).to_owned())
        });
        store.register_agents(system(), proposed.collect()).await.expect("registered agents")
    };

    let first = register(&[("echo", "{}"), ("coder", r#"{"model":"a"}"#)]).await;
    let same = register(&[("coder", r#"{"model":"a"}"#), ("echo", "{}")]).await;
    let changed = register(&[("coder", r#"{"model":"b"}"#)]).await;
    let unchanged = register(&[("coder", r#"{"model":"b"}"#), ("echo", "{}")]).await;

    let [echo, coder] = &first[..] else { panic!("{first:?}") };
    assert_eq!((echo.name.as_str(), echo.version), ("echo", 1));
    assert_eq!((coder.name.as_str(), coder.version), ("coder", 1));
    assert_eq!(same, [coder.clone(), echo.clone()]);
    let grown = AgentContext { version: 2, ..coder.clone() };
    assert_eq!(changed, std::slice::from_ref(&grown));
    assert_eq!(unchanged, [grown, echo.clone()]);
    // What an old version said is still there for the sessions that started with it.
    let world = World::new(Arc::clone(&store)).await;
    for (version, words) in [(1, r#"{"model":"a"}"#), (2, r#"{"model":"b"}"#)] {
        let found = store.find_agent_context(&world.as_owner(), coder.id, Some(version)).await;
        let spec = found.expect("a read").map(|found| found.spec);
        assert_eq!(spec, Some(VersionSpec::Configured(words.to_owned())));
    }
}

pub async fn agents_registered_by_many_at_once_are_the_same_agents(store: Arc<dyn Storage>) {
    let ids = SeededIds::new(7);
    let mut starts = JoinSet::new();
    for _ in 0..8 {
        let id = AgentContextId::from_uuid(ids.next());
        let agent = AgentContext { id, name: "echo".to_owned(), version: 1 };
        let store = Arc::clone(&store);
        starts.spawn(async move {
            store.register_agents(system(), vec![(agent, "{}".to_owned())]).await.expect("agents")
        });
    }

    let registered = starts.join_all().await;

    assert!(registered.windows(2).all(|pair| pair[0] == pair[1]), "{registered:?}");
    assert_eq!(registered[0][0].version, 1);
}

pub async fn every_org_has_the_configured_conversation_contexts(store: Arc<dyn Storage>) {
    let acme = World::named(Arc::clone(&store), "Acme", 1).await;
    let own = acme.draft_conversation_context("polite");
    acme.commit(writing(vec![Write::PutConversationContext(Box::new(own.clone()))])).await;
    let draft = |prompt: &str| {
        let draft = acme.draft_conversation_context("polite");
        let spec = ConversationSpec { system_prompt: prompt.to_owned(), ..draft.spec };
        ConversationContext { spec, is_configured: true, ..draft }
    };
    let register = async |contexts: &[&ConversationContext]| {
        let contexts = contexts.iter().map(|context| (*context).clone()).collect();
        store.register_conversation_contexts(system(), contexts).await.expect("registered");
    };
    let list = async |world: &World| {
        let scope = world.as_owner();
        store.list_conversation_contexts(&scope, None, 9).await.expect("a page")
    };
    let (first, same, second) = (draft("one"), draft("one"), draft("two"));

    register(&[&first]).await;
    register(&[&same]).await;
    let at_first = list(&acme).await;
    register(&[&second]).await;
    // It is made when everything is configured already.
    let globex = World::named(Arc::clone(&store), "Globex", 2).await;

    let next = ConversationContext { id: first.id, version: 2, ..second.clone() };
    assert_eq!(at_first, [own.clone(), first.clone()]);
    assert_eq!(list(&acme).await, [own.clone(), next.clone()]);
    assert_eq!(list(&globex).await, std::slice::from_ref(&next));
    for (world, version, known) in [(&acme, 1, Some(&first)), (&acme, 2, Some(&next))] {
        let scope = world.as_owner();
        let found = store.find_conversation_context(&scope, first.id, Some(version)).await;
        assert_eq!(found.expect("a read").as_ref(), known);
    }
    // Nobody but the configuration writes it.
    let third = ConversationContext { version: 3, ..next.clone() };
    for world in [&acme, &globex] {
        let put = Write::PutConversationContext(Box::new(third.clone()));
        let refused = world.conflict(writing(vec![put])).await;
        assert_eq!(refused, Conflict::AlreadyExists("conversation context"));
    }
}

pub async fn a_conversation_context_that_is_configured_no_more_stays_with_its_sessions(
    store: Arc<dyn Storage>,
) {
    let world = World::new(Arc::clone(&store)).await;
    let scope = world.as_owner();
    let context = world.draft_conversation_context("polite");
    let context = ConversationContext { is_configured: true, ..context };
    let register = async |contexts: Vec<ConversationContext>| {
        store.register_conversation_contexts(system(), contexts).await.expect("registered");
    };
    let find = async |version| {
        store.find_conversation_context(&scope, context.id, version).await.expect("a read")
    };
    register(vec![context.clone()]).await;
    let draft = world.draft_session();
    let binding = Binding { conversation_context: Some((context.id, 1)), ..draft.binding.clone() };
    let session = world.open(Session { binding, ..draft }).await;

    register(Vec::new()).await;
    let (by_anyone, by_its_session) = (find(None).await, find(Some(1)).await);
    let listed = store.list_conversation_contexts(&scope, None, 9).await.expect("a page");
    let shown = store.find_session(&scope, session.id).await.expect("a read");
    let later = World::named(Arc::clone(&store), "Globex", 2).await;
    let copied = store.list_conversation_contexts(&later.as_owner(), None, 9).await;
    register(vec![context.clone()]).await;
    let back = find(None).await;
    let everywhere = store.list_conversation_contexts(&later.as_owner(), None, 9).await;

    assert_eq!((by_anyone, by_its_session), (None, Some(context.clone())));
    assert_eq!((listed, copied.expect("a page")), (vec![], vec![]));
    let name = shown.and_then(|record| record.conversation_context_name);
    assert_eq!(name.as_deref(), Some("polite"));
    assert_eq!(
        (back.as_ref(), everywhere.expect("a page")),
        (Some(&context), vec![context.clone()])
    );
}

pub async fn the_instance_owner_is_known_after_the_first_run(store: Arc<dyn Storage>) {
    let before = store.find_instance_owner(system()).await.expect("a read");
    let world = World::named(Arc::clone(&store), "Globex", 2).await;
    let still_nobody = store.find_instance_owner(system()).await.expect("a read");
    let first = User { instance_owner: true, ..world.draft_user("Ida", UserRole::Owner) };

    world.commit(writing(vec![Write::CreateUser(first.clone())])).await;

    assert_eq!((before, still_nobody), (None, None));
    assert_eq!(store.find_instance_owner(system()).await.expect("a read"), Some(first));
}

pub async fn a_sweep_removes_old_keys_and_parts_that_no_payload_names(store: Arc<dyn Storage>) {
    let world = World::new(Arc::clone(&store)).await;
    let named = NewPayload {
        sha256: Sha256Hash::of(b"named"),
        size_bytes: 5,
        body: PayloadBody::Parts { count: 1 },
        ..inline(&world, Bytes::new())
    };
    let part = |payload, body: &'static [u8]| Write::PutPayloadPart {
        payload,
        part: 0,
        body: Bytes::from_static(body),
    };
    world
        .commit(ChangeSet {
            writes: vec![
                part(named.id, b"named"),
                Write::PutPayload(named.clone()),
                part(world.payload_id(), b"unnamed"),
            ],
            idempotency: Some(IdempotencyRecord {
                key: "key".to_owned(),
                fingerprint: Sha256Hash::of(b"body"),
                resource: Resource { kind: ResourceKind::Org, id: *world.org.id.as_uuid() },
                created_at: world.clock.now(),
            }),
            ..ChangeSet::default()
        })
        .await;
    let long_ago = Timestamp::from_millis(0);
    let some_day = Timestamp::from_millis(i64::MAX);

    let none = store.sweep(system(), long_ago).await.expect("a sweep");
    let kept = store.find_idempotency(&world.as_owner(), "key").await.expect("a read");
    let some = store.sweep(system(), some_day).await.expect("a sweep");
    let again = store.sweep(system(), some_day).await.expect("a sweep");

    assert!(kept.is_some());
    assert_eq!((none, some, again), (0, 2, 0));
    assert_eq!(store.find_idempotency(&world.as_owner(), "key").await.expect("a read"), None);
    let body = store.payload_body(&world.as_owner(), named.id).await.expect("a body");
    assert_eq!(body, "named");
}

pub async fn a_store_that_can_write_says_so(store: Arc<dyn Storage>) {
    store.check(system()).await.expect("a store that can write");
}

fn system() -> SystemScope {
    SystemScope::for_purpose("test")
}

fn pending(world: &World, turn: &Turn) -> PendingTurn {
    let org: OrgId = world.org.id;
    PendingTurn {
        org,
        session: turn.request.conversation,
        turn: turn.id,
        created_by: Scope::on_behalf_of(org, turn.created_by).user,
        started_at: turn.started_at,
        response: None,
    }
}
