//! Lists of sessions: what is visible, what matches, in which order, page by page.

use std::sync::Arc;

use skein_core::{
    model::{
        AgentContext, AgentContextId, Binding, Interface, Profile, RepoId, Scope, Session,
        SessionId, SessionStateName, SystemScope, Turn,
    },
    ports::{
        Conflict, Counting, Ids, SessionFilter, SessionPage, SessionQuery, SessionSort, Storage,
        Visibility, Write,
    },
};

use tokio::task::JoinSet;

use crate::{
    World,
    world::{creating, saving},
    writing,
};

pub async fn sessions_are_listed_newest_first_with_whole_records(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let second = world.open(world.draft_session()).await;
    // Two of one moment: the larger id comes first.
    let third = world.open(world.draft_session()).await;
    let twin = Session { created_at: third.created_at, ..world.draft_session() };
    world.open(twin.clone()).await;

    let page = list(&world, all()).await;

    assert_eq!(ids(&page), [twin.id, third.id, second.id, world.session.id]);
    assert_eq!((page.total, page.next), (4, None));
    for record in page.sessions {
        let found = world.store.find_session(&world.as_owner(), record.session.id).await;
        assert_eq!(found.expect("a read"), Some(record));
    }
}

pub async fn sessions_are_filtered_by_states(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let at = world.session.created_at;
    let active = world.draft_session();
    world.open(active.clone()).await;
    world.commit(saving(&active.clone().activate(at).expect("an arrow"))).await;
    let failed = world.draft_session();
    world.open(failed.clone()).await;
    world
        .commit(saving(&failed.clone().fail("agent_exited".to_owned(), at).expect("an arrow")))
        .await;
    let by = |states: &[SessionStateName]| SessionFilter {
        states: states.to_vec(),
        ..SessionFilter::default()
    };

    use SessionStateName::{Active, Completed, Created, Failed};
    let cases: [(&[SessionStateName], &[SessionId]); 5] = [
        (&[], &[failed.id, active.id, world.session.id]),
        (&[Active], &[active.id]),
        (&[Created, Failed], &[failed.id, world.session.id]),
        (&[Failed, Failed], &[failed.id]),
        (&[Completed], &[]),
    ];
    for (states, wanted) in cases {
        let page = list(&world, filtered(by(states))).await;

        assert_eq!(ids(&page), wanted, "{states:?}");
        assert_eq!(page.total, wanted.len() as u64, "{states:?}");
    }
}

pub async fn sessions_are_filtered_by_agent_interface_and_repository(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let proposed = AgentContext {
        id: AgentContextId::from_uuid(world.ids.next()),
        name: "other".to_owned(),
        version: 1,
    };
    let other = world
        .store
        .register_agents(SystemScope::for_purpose("test"), vec![(proposed, "{}".to_owned())])
        .await
        .expect("a registered agent")
        .remove(0);
    let draft = world.draft_session();
    let theirs = Session {
        binding: Binding { agent_context: other.id, ..draft.binding.clone() },
        interface: Interface::Cli,
        ..draft
    };
    world.open(theirs.clone()).await;
    let unknown = RepoId::from_uuid(world.ids.next());

    let none = SessionFilter::default;
    let agent = |name: &str| SessionFilter { agent: Some(name.to_owned()), ..none() };
    let interface = |interface| SessionFilter { interface: Some(interface), ..none() };
    let cases = [
        (agent("echo"), vec![world.session.id]),
        (agent("other"), vec![theirs.id]),
        (agent("nobody"), vec![]),
        (interface(Interface::Api), vec![world.session.id]),
        (interface(Interface::Cli), vec![theirs.id]),
        (interface(Interface::Web), vec![]),
        (SessionFilter { interface: Some(Interface::Cli), ..agent("echo") }, vec![]),
        (SessionFilter { repo: Some(unknown), ..none() }, vec![]),
    ];
    for (filter, wanted) in cases {
        let page = list(&world, filtered(filter.clone())).await;

        assert_eq!(ids(&page), wanted, "{filter:?}");
        assert_eq!(page.total, wanted.len() as u64, "{filter:?}");
    }
}

pub async fn a_session_of_an_unknown_repository_is_refused(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let draft = world.draft_session();
    let repo_id = Some(RepoId::from_uuid(world.ids.next()));
    let lost = Session { binding: Binding { repo_id, ..draft.binding.clone() }, ..draft };

    let refused = world.conflict(world.opening(&lost)).await;

    assert!(matches!(refused, Conflict::Missing(_)), "{refused:?}");
}

pub async fn free_text_is_taken_literally_in_any_case(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let open =
        async |profile: Profile| world.open(Session { profile, ..world.draft_session() }).await.id;
    let percent = open(Profile { name: Some("100% Wool".to_owned()), ..Profile::default() }).await;
    let underscore = open(Profile { key: Some("a_b".to_owned()), ..Profile::default() }).await;
    let plain =
        open(Profile { description: Some("axb, 100 wool".to_owned()), ..Profile::default() }).await;
    let backslash = open(Profile { name: Some(r"c:\yarn".to_owned()), ..Profile::default() }).await;

    let cases: [(&str, &[SessionId]); 9] = [
        ("100%", &[percent]),
        ("a_b", &[underscore]),
        ("A_B", &[underscore]),
        ("wool", &[plain, percent]),
        ("WOOL", &[plain, percent]),
        ("%", &[percent]),
        (r"\", &[backslash]),
        (r"C:\Y", &[backslash]),
        ("silk", &[]),
    ];
    for (text, wanted) in cases {
        let filter = SessionFilter { text: Some(text.to_owned()), ..SessionFilter::default() };
        let page = list(&world, filtered(filter)).await;

        assert_eq!(ids(&page), wanted, "{text:?}");
        assert_eq!(page.total, wanted.len() as u64, "{text:?}");
    }
}

pub async fn what_no_counter_knows_is_counted_as_far_as_is_asked(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    for index in 0..3 {
        let draft = if index % 2 == 0 { owned_by_member(&world) } else { world.draft_session() };
        let profile =
            Profile { name: Some("wool".to_owned()), is_public: true, ..Profile::default() };
        world.open(Session { profile, ..draft }).await;
    }
    let wool = SessionFilter { text: Some("wool".to_owned()), ..SessionFilter::default() };
    let echo = SessionFilter { agent: Some("echo".to_owned()), ..SessionFilter::default() };

    let (admin, member) = (Visibility::WholeOrg, Visibility::ReadableBy(world.member.id));
    let cases = [
        (&wool, admin, Counting::UpTo(2), (2, true)),
        (&wool, admin, Counting::UpTo(3), (3, false)),
        (&wool, admin, Counting::Exact, (3, false)),
        // Two of them are found twice: as the member's own, and as public ones.
        (&wool, member, Counting::UpTo(2), (2, true)),
        (&wool, member, Counting::UpTo(3), (3, false)),
        (&echo, admin, Counting::UpTo(3), (3, true)),
        (&echo, admin, Counting::UpTo(4), (4, false)),
    ];
    for (filter, visibility, counting, wanted) in cases {
        let query = SessionQuery { visibility, counting, limit: 1, ..filtered(filter.clone()) };
        let page = list(&world, query.clone()).await;
        let next = list(&world, SessionQuery { from: page.next, ..query }).await;

        assert_eq!((page.total, page.total_is_lower_bound), wanted, "{counting:?} {filter:?}");
        // A cursor moves the page, not what is counted.
        assert_eq!((next.total, next.total_is_lower_bound), wanted, "{counting:?} {filter:?}");
    }
}

pub async fn sessions_of_a_user_are_those_owned_and_those_taken_part_in(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let theirs = world.open(owned_by_member(&world)).await;
    let public = world.open(public(world.draft_session())).await;
    let shared = world.open(world.draft_session()).await;
    take_part(&world, &shared).await;

    let of = |user| filtered(SessionFilter { user: Some(user), ..SessionFilter::default() });
    let members = list(&world, of(world.member.id)).await;
    let owners = list(&world, of(world.owner.id)).await;

    assert_eq!((ids(&members), members.total), (vec![shared.id, theirs.id], 2));
    assert_eq!((ids(&owners), owners.total), (vec![shared.id, public.id, world.session.id], 3));
}

pub async fn a_member_sees_own_public_and_shared_work_only(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let theirs = world.open(owned_by_member(&world)).await;
    let public_one = world.open(public(world.draft_session())).await;
    let taken_part = world.open(public(world.draft_session())).await;
    take_part(&world, &taken_part).await;
    let private = world.open(world.draft_session()).await;
    take_part(&world, &private).await;
    world.open(world.draft_session()).await;
    let readable = SessionQuery { visibility: Visibility::ReadableBy(world.member.id), ..all() };

    let page = list(&world, readable.clone()).await;
    let hidden = Session { profile: Profile::default(), revision: 2, ..public_one.clone() };
    world.commit(saving(&hidden)).await;
    let later = list(&world, readable).await;

    assert_eq!(ids(&page), [private.id, taken_part.id, public_one.id, theirs.id]);
    assert_eq!(page.total, 4);
    assert_eq!(ids(&later), [private.id, taken_part.id, theirs.id]);
    assert_eq!(later.total, 3);
}

pub async fn a_token_for_one_session_lists_that_session(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let one = world.open(world.draft_session()).await;
    world.open(public(world.draft_session())).await;
    let only = |session| SessionQuery { visibility: Visibility::Only(session), ..all() };

    let page = list(&world, only(one.id)).await;
    let nothing = list(&world, only(world.draft_session().id)).await;

    assert_eq!((ids(&page), page.total, page.next), (vec![one.id], 1, None));
    assert_eq!((ids(&nothing), nothing.total), (vec![], 0));
}

pub async fn pages_by_cursor_have_no_gap_or_duplicate_while_sessions_arrive(
    store: Arc<dyn Storage>,
) {
    let world = World::new(store).await;
    let mut wanted = vec![world.session.id];
    for _ in 0..9 {
        wanted.push(world.open(world.draft_session()).await.id);
    }
    wanted.reverse();

    let mut seen = Vec::new();
    let mut totals = Vec::new();
    let mut from: Option<SessionSort> = None;
    loop {
        let page = list(&world, SessionQuery { from, limit: 3, ..all() }).await;
        seen.extend(ids(&page));
        totals.push(page.total);
        world.open(world.draft_session()).await;
        from = page.next;
        if from.is_none() {
            break;
        }
    }

    assert_eq!(seen, wanted);
    assert_eq!(totals, [10, 11, 12, 13]);
}

pub async fn a_full_last_page_has_no_next(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    for _ in 0..3 {
        world.open(world.draft_session()).await;
    }

    let first = list(&world, SessionQuery { limit: 2, ..all() }).await;
    let last = list(&world, SessionQuery { limit: 2, from: first.next, ..all() }).await;

    assert_eq!((first.sessions.len(), first.next.is_some()), (2, true));
    assert_eq!((last.sessions.len(), last.next), (2, None));
}

pub async fn totals_stay_exact_while_sessions_come_move_and_go(store: Arc<dyn Storage>) {
    const SESSIONS: usize = 24;
    let world = World::new(store).await;
    let mut movers = JoinSet::new();
    for index in 0..SESSIONS {
        let at = world.clock.tick();
        let draft = if index % 2 == 0 { owned_by_member(&world) } else { world.draft_session() };
        let draft = if index % 3 == 0 { public(draft) } else { draft };
        let opening = world.opening(&draft);
        let active = draft.clone().activate(at).expect("an arrow");
        let toggled = Session {
            profile: Profile { is_public: index % 4 == 0, ..Profile::default() },
            ..active.clone()
        };
        let took_part = Turn { created_by: world.member.id, ..world.queued_turn(&draft) };
        let (store, scope) = (Arc::clone(&world.store), world.as_owner());
        movers.spawn(async move {
            store.commit(&scope, opening).await.expect("a session");
            // Whoever takes part while the session moves is counted with the state it ends in.
            let turn = creating(&took_part);
            let (moved, joined) =
                tokio::join!(store.commit(&scope, saving(&active)), store.commit(&scope, turn));
            moved.and(joined).expect("a move and a turn");
            store.commit(&scope, saving(&toggled)).await.expect("a change");
            if index % 5 == 0 {
                let purge = Write::PurgeSession { session: draft.id };
                store.commit(&scope, writing(vec![purge])).await.expect("a purge");
            }
        });
    }
    movers.join_all().await;

    for visibility in [
        Visibility::WholeOrg,
        Visibility::ReadableBy(world.member.id),
        Visibility::ReadableBy(world.owner.id),
    ] {
        for states in [vec![], vec![SessionStateName::Active], vec![SessionStateName::Created]] {
            let filter = SessionFilter { states: states.clone(), ..SessionFilter::default() };
            let page = list(&world, SessionQuery { visibility, filter, ..all() }).await;
            assert_eq!(page.total, page.sessions.len() as u64, "{visibility:?}");
            for record in page.sessions {
                let state = record.session.state.name();
                assert!(states.is_empty() || states.contains(&state), "{visibility:?} {state}");
            }
        }
    }
    let whole = list(&world, all()).await;
    assert_eq!(whole.total as usize, SESSIONS - SESSIONS.div_ceil(5) + 1);
    let theirs = SessionQuery { visibility: Visibility::ReadableBy(world.member.id), ..all() };
    assert_eq!(list(&world, theirs).await.total as usize, SESSIONS - SESSIONS.div_ceil(5));
}

pub async fn an_offset_counts_from_the_newest_or_from_the_cursor(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let mut newest_first = vec![world.session.id];
    for _ in 0..7 {
        newest_first.insert(0, world.open(world.draft_session()).await.id);
    }
    let states = vec![SessionStateName::Created, SessionStateName::Active];
    let query = SessionQuery {
        filter: SessionFilter { states, ..SessionFilter::default() },
        limit: 2,
        ..all()
    };

    let from_the_newest = list(&world, SessionQuery { offset: 3, ..query.clone() }).await;
    let from = list(&world, query.clone()).await.next;
    let from_the_cursor = list(&world, SessionQuery { from, offset: 3, ..query.clone() }).await;
    let beyond = list(&world, SessionQuery { offset: 100, ..query }).await;

    assert_eq!((ids(&from_the_newest), from_the_newest.total), (newest_first[3..5].to_vec(), 8));
    assert_eq!((ids(&from_the_cursor), from_the_cursor.total), (newest_first[5..7].to_vec(), 8));
    assert_eq!((ids(&beyond), beyond.total, beyond.next), (vec![], 8, None));
}

pub(super) fn all() -> SessionQuery {
    SessionQuery {
        visibility: Visibility::WholeOrg,
        filter: SessionFilter::default(),
        from: None,
        offset: 0,
        limit: 100,
        counting: Counting::Exact,
    }
}

fn filtered(filter: SessionFilter) -> SessionQuery {
    SessionQuery { filter, ..all() }
}

fn owned_by_member(world: &World) -> Session {
    Session { owner: world.member.id, created_by: world.member.id, ..world.draft_session() }
}

fn public(session: Session) -> Session {
    Session { profile: Profile { is_public: true, ..Profile::default() }, ..session }
}

async fn take_part(world: &World, session: &Session) {
    let turn = Turn { created_by: world.member.id, ..world.queued_turn(session) };
    world.begin(turn).await;
}

async fn list(world: &World, query: SessionQuery) -> SessionPage {
    let scope: Scope = world.as_owner();
    world.store.list_sessions(&scope, &query).await.expect("a page of sessions")
}

fn ids(page: &SessionPage) -> Vec<SessionId> {
    page.sessions.iter().map(|record| record.session.id).collect()
}
