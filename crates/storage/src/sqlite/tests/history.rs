//! Histories of several segments, and what a purge leaves.

use skein_core::{
    model::{Event, Seq, Session, TurnId},
    ports::{ChangeSet, EventLimit, MessagePage, MessageRange, TurnPage, Write},
};
use skein_testkit::{World, writing};

use super::{super::rows::key, Home};

/// A parent of turns 1–3 and events 1–7, and a fork that shares turn 1 and events 1–3 and goes on by itself.
struct Family {
    parent: Session,
    fork: Session,
    shared: TurnId,
    of_parent: TurnId,
    of_fork: TurnId,
}

async fn say_turn(world: &World, session: &Session, text: &str) -> TurnId {
    let turn = world.begin(world.started_turn(session)).await;
    let events = vec![world.message(session.log, text)];
    world.commit(ChangeSet { events, ..ChangeSet::default() }).await;
    world.finish(&turn).await.id
}

async fn family(home: &Home, world: &World) -> Family {
    let parent = world.session.clone();
    let shared = say_turn(world, &parent, "shared").await;
    let of_parent = say_turn(world, &parent, "parent's").await;
    say_turn(world, &parent, "parent's last").await;
    let fork = world.draft_session();
    world.commit(writing(vec![Write::CreateSession(Box::new(fork.clone()))])).await;
    let (org, session, log) = (*key(&world.org.id), *key(&fork.id), *key(&fork.log));
    home.execute("UPDATE logs SET last_seq = 3, turn_count = 1 WHERE id = ?1", [log])
        .await
        .unwrap();
    home.execute(
        "UPDATE session_segments SET from_seq = 4, first_turn = 2 WHERE session_id = ?1",
        [session],
    )
    .await
    .unwrap();
    home.execute(
        "INSERT INTO session_segments VALUES (?1, ?2, 1, 3, ?3, 1, 1)",
        [org, session, *key(&parent.log)],
    )
    .await
    .unwrap();
    let of_fork = say_turn(world, &fork, "fork's").await;
    say_turn(world, &fork, "fork's last").await;
    Family { parent, fork, shared, of_parent, of_fork }
}

fn seqs(events: &[Event]) -> Vec<Seq> {
    events.iter().map(|event| event.seq).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_reads_its_parents_beginning_and_its_own_continuation() {
    let home = Home::new();
    let world = home.world().await;
    let family = family(&home, &world).await;
    let (scope, fork) = (world.as_owner(), family.fork.id);

    let all = world.log(fork).await;
    let limit = EventLimit { events: 3, bytes: usize::MAX };
    let across = world.store.list_events(&scope, fork, 1, limit).await.unwrap();
    let range = MessageRange { after: 0, before: None, since: None };
    let messages = |page| world.store.list_message_events(&scope, fork, range, page);
    let first = messages(MessagePage::First(2)).await.unwrap();
    let last = messages(MessagePage::Last(2)).await.unwrap();

    assert_eq!(seqs(&all), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(all[2].log, family.parent.log);
    assert_eq!(all[3].log, family.fork.log);
    assert_eq!(seqs(&across), [2, 3, 4]);
    assert_eq!(seqs(&first), [3, 5]);
    assert_eq!(seqs(&last), [5, 7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_has_its_parents_turns_up_to_the_fork_and_its_own() {
    let home = Home::new();
    let world = home.world().await;
    let family = family(&home, &world).await;
    let scope = world.as_owner();
    let numbers = async |page, limit| -> Vec<(u32, bool)> {
        let listed = world.store.list_turns(&scope, family.fork.id, page, limit).await.unwrap();
        listed.iter().map(|found| (found.turn.number, found.turn.log == family.fork.log)).collect()
    };
    let finds =
        async |turn| world.store.find_turn(&scope, family.fork.id, turn).await.unwrap().is_some();

    assert_eq!(numbers(TurnPage::After(0), 9).await, [(1, false), (2, true), (3, true)]);
    assert_eq!(numbers(TurnPage::Last, 2).await, [(2, true), (3, true)]);
    assert_eq!(numbers(TurnPage::Before(3), 9).await, [(1, false), (2, true)]);
    assert!(finds(family.shared).await && finds(family.of_fork).await);
    assert!(!finds(family.of_parent).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purged_parent_leaves_its_forks_whole_and_the_last_reader_takes_the_log_along() {
    let home = Home::new();
    let world = home.world().await;
    let family = family(&home, &world).await;
    let purge = |session| writing(vec![Write::PurgeSession { session }]);
    let before = world.log(family.fork.id).await;

    world.commit(purge(family.parent.id)).await;
    let after = world.log(family.fork.id).await;
    world.commit(purge(family.fork.id)).await;

    assert_eq!(after, before);
    for empty in [
        "SELECT count(*) FROM sessions",
        "SELECT count(*) FROM session_segments",
        "SELECT count(*) FROM session_access",
        "SELECT sum(n) FROM session_counts",
        "SELECT count(*) FROM logs",
        "SELECT count(*) FROM events",
        "SELECT count(*) FROM turns",
        "SELECT count(*) FROM payloads",
        "SELECT count(*) FROM token_usage WHERE subject_kind = 'log'",
    ] {
        assert_eq!(home.number(empty).await, 0, "{empty}");
    }
    assert_eq!(home.number("SELECT count(*) FROM tickets WHERE session_id IS NULL").await, 1);
}
