//! Sessions come into being, change and are read back.

use std::sync::Arc;

use serde_json::json;
use skein_core::{
    model::{
        AccessVia, Checkpoint, CheckpointId, CheckpointState, Interface, Profile, Session,
        SessionState, Timestamp,
    },
    ports::{
        ChangeSet, Clock, Committed, Conflict, Expectation, Ids, LogStats, SessionRecord, Storage,
        StoreError, Write,
    },
};
use tokio::task::JoinSet;

use crate::{
    World,
    world::{saving, writing},
};

pub async fn creating_a_session_opens_its_log_its_segment_and_its_owners_access(
    store: Arc<dyn Storage>,
) {
    let world = World::new(store).await;
    let session = full(&world);

    let committed = world.commit(world.opening(&session)).await;

    let record = SessionRecord {
        session: session.clone(),
        org_name: "Acme".to_owned(),
        owner_name: "Olga Owner".to_owned(),
        created_by_name: "Olga Owner".to_owned(),
        agent_context_name: "echo".to_owned(),
        conversation_context_name: None,
        repository: None,
        log: LogStats {
            last_seq: 1,
            last_at: Some(session.created_at),
            turn_count: 0,
            last_turn: None,
        },
        chain_expires_at: None,
        access: Some(AccessVia::Owner),
    };
    assert_eq!(find(&world, &session).await, Some(record.clone()));
    assert_eq!(world.log(session.id).await, committed.events);
    let as_member = world.store.find_session(&world.as_member(), session.id).await;
    assert_eq!(as_member.expect("a read"), Some(SessionRecord { access: None, ..record }));
}

pub async fn a_session_id_can_be_used_once(store: Arc<dyn Storage>) {
    let world = World::new(store).await;

    let again = world.conflict(world.opening(&world.session)).await;

    assert!(matches!(again, Conflict::AlreadyExists(_)), "{again:?}");
}

pub async fn saving_a_session_writes_its_state_and_everything_editable(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let at = world.clock.tick();
    let checkpoint = CheckpointId::from_uuid(world.ids.next());
    let active = world.session.clone().activate(at).expect("an arrow");
    let suspended = active.clone().suspend(checkpoint, "a pause".to_owned(), at).expect("an arrow");
    let resumed = suspended.clone().resume(Some(Interface::Cli), at).expect("an arrow");
    let edited = Session {
        provider_session_id: Some("ps_1".to_owned()),
        agent_state: Some(json!({"memory": [1, 2.5, null]})),
        deleted_at: Some(world.clock.tick()),
        ..resumed.clone().edit(full(&world).profile, world.clock.tick())
    };
    let completed = edited.clone().complete(Some("done".to_owned()), at).expect("an arrow");

    for saved in [active, suspended, resumed, edited, completed] {
        world.commit(saving(&saved)).await;

        assert_eq!(stored(&world, &saved).await, saved);
    }
}

pub async fn every_final_state_keeps_its_reason(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let at = world.clock.tick();
    let reason = || Some("because".to_owned());
    let ends = [
        world.draft_session().complete(None, at),
        world.draft_session().complete(reason(), at),
        world.draft_session().cancel(None, at),
        world.draft_session().cancel(reason(), at),
        world.draft_session().fail("agent_exited".to_owned(), at),
    ];

    for ended in ends {
        let ended = ended.expect("an arrow");
        world.open(Session { state: SessionState::Created, revision: 1, ..ended.clone() }).await;
        world.commit(saving(&ended)).await;

        assert_eq!(stored(&world, &ended).await, ended);
    }
}

pub async fn a_session_that_moved_on_is_not_overwritten(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let at = world.clock.tick();
    let edited = world.session.clone().edit(named("first"), at);
    world.commit(expecting(&world.session, &edited)).await;

    let late = world.session.clone().edit(named("second"), at);
    let refused = world.conflict(expecting(&world.session, &late)).await;

    assert_eq!(refused, Conflict::SessionChanged(world.session.id));
    assert_eq!(stored(&world, &edited).await, edited);
}

pub async fn of_many_edits_of_one_revision_exactly_one_wins(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let mut edits = JoinSet::new();
    for n in 0..16 {
        let edited = world.session.clone().edit(named(&format!("edit {n}")), world.clock.tick());
        let (store, scope) = (Arc::clone(&world.store), world.as_owner());
        let changes = expecting(&world.session, &edited);
        edits.spawn(async move { (edited, store.commit(&scope, changes).await) });
    }

    let mut winners = Vec::new();
    for (edited, result) in edits.join_all().await {
        match result {
            Ok(_) => winners.push(edited),
            Err(StoreError::Conflict(Conflict::SessionChanged(id))) if id == world.session.id => {}
            Err(other) => panic!("expected SessionChanged, got {other:?}"),
        }
    }

    let [winner] = &winners[..] else { panic!("{} edits won", winners.len()) };
    assert_eq!(&stored(&world, winner).await, winner);
}

pub async fn text_of_every_script_comes_back_as_it_was(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let text = "naïve e\u{301} 日本語 שלום مرحبا 🧶👩‍👩‍👧 \u{202e}rtl\u{202c} \u{1f}'\";--\\ %_ \u{10ffff}\r\n\t";
    let profile = Profile {
        name: Some(text.to_owned()),
        description: Some(text.repeat(1_000)),
        metadata: json!({text: {"list": [text, 1.5, true, null]}})
            .as_object()
            .cloned()
            .expect("an object"),
        ..Profile::default()
    };

    let session = world.open(Session { profile, ..world.draft_session() }).await;
    let said = world.message(session.log, text);
    let committed =
        world.commit(ChangeSet { events: vec![said.clone()], ..ChangeSet::default() }).await;

    assert_eq!(stored(&world, &session).await, session);
    assert_eq!(committed.events[0].body, said.body);
    assert_eq!(world.log(session.id).await[1..], committed.events);
}

pub async fn moments_are_kept_to_the_millisecond(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let moments = [i64::MIN, -1_001, -1, 0, 1, 999, 1_794_766_234_499, 4_102_444_800_001, i64::MAX];

    for moment in moments {
        let at = Timestamp::from_millis(moment);
        let session = Session {
            created_at: at,
            updated_at: at,
            deleted_at: Some(at),
            ..world.draft_session()
        };
        world.open(session.clone()).await;

        assert_eq!(stored(&world, &session).await, session);
        assert_eq!(world.log(session.id).await[0].at, at);
    }
}

pub async fn a_checkpoint_is_read_back_as_it_was(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let full = Checkpoint {
        id: CheckpointId::from_uuid(world.ids.next()),
        session: world.session.id,
        seq: 1,
        reason: "a pause".to_owned(),
        state: CheckpointState {
            agent_state: Some(json!({"history": "x".repeat(100_000), "n": 1})),
            suspension_data: Some(json!(["to", "do", null])),
        },
        at: world.clock.tick(),
    };
    let empty = Checkpoint {
        id: CheckpointId::from_uuid(world.ids.next()),
        state: CheckpointState::default(),
        ..full.clone()
    };

    for checkpoint in [full, empty] {
        world.commit(writing(vec![Write::PutCheckpoint(Box::new(checkpoint.clone()))])).await;

        let found = world.store.find_checkpoint(&world.as_owner(), checkpoint.id).await;
        assert_eq!(found.expect("a read"), Some(checkpoint));
    }
    let unknown = CheckpointId::from_uuid(world.ids.next());
    let found = world.store.find_checkpoint(&world.as_owner(), unknown).await;
    assert_eq!(found.expect("a read"), None);
}

pub async fn a_change_set_of_nothing_commits_nothing(store: Arc<dyn Storage>) {
    let world = World::new(store).await;

    let committed = world.commit(ChangeSet::default()).await;

    assert_eq!(committed, Committed::default());
    assert_eq!(world.log(world.session.id).await.len(), 1);
}

/// A session with every field filled in that does not need another record.
fn full(world: &World) -> Session {
    let draft = world.draft_session();
    Session {
        profile: Profile {
            name: Some("A tangle".to_owned()),
            key: Some("PROJ-7".to_owned()),
            description: Some("to be unravelled".to_owned()),
            category: Some("yarn".to_owned()),
            is_public: true,
            is_draft: true,
            default_language: Some("de".to_owned()),
            metadata: json!({"b": 1, "a": {"deep": [true]}}).as_object().cloned().expect("object"),
        },
        binding: skein_core::model::Binding {
            repo: Some("skein".to_owned()),
            workspace_id: Some("ws-1".to_owned()),
            scope_paths: vec!["src/**".to_owned(), "docs/*.md".to_owned()],
            ..draft.binding
        },
        interface: Interface::Pipeline,
        provider_session_id: Some("ps_0".to_owned()),
        agent_state: Some(json!({"k": "v"})),
        updated_at: world.clock.now(),
        ..draft
    }
}

fn named(name: &str) -> Profile {
    Profile { name: Some(name.to_owned()), ..Profile::default() }
}

fn expecting(read: &Session, edited: &Session) -> ChangeSet {
    ChangeSet {
        expects: vec![Expectation::SessionRevision { session: read.id, revision: read.revision }],
        ..saving(edited)
    }
}

async fn find(world: &World, session: &Session) -> Option<SessionRecord> {
    world.store.find_session(&world.as_owner(), session.id).await.expect("a read")
}

async fn stored(world: &World, session: &Session) -> Session {
    find(world, session).await.expect("a stored session").session
}
