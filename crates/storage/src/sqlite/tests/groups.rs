//! Groups: what shares a transaction shares nothing else.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
    mpsc,
};

use bytes::Bytes;
use skein_core::{
    model::SystemScope,
    ports::{
        AuditReads, ChangeSet, Committed, Conflict, Expectation, Lane, Store, StoreError,
        SystemStore, Write,
    },
};
use skein_testkit::{World, writing};
use tokio::task::JoinSet;

use super::Home;

/// Sends all change sets while the writer is held, so that they wait together.
async fn commit_together(
    home: &Home,
    world: &World,
    changes: Vec<ChangeSet>,
) -> Vec<Result<Committed, StoreError>> {
    let (release, released) = mpsc::channel::<()>();
    let (hold, held) = mpsc::channel::<()>();
    let lanes = Arc::clone(&home.store.lanes);
    let holder = std::thread::spawn(move || {
        lanes.hold_writer(|| {
            hold.send(()).unwrap();
            released.recv().unwrap();
        });
    });
    held.recv().unwrap();
    let mut commits = JoinSet::new();
    let count = changes.len();
    for (n, changes) in changes.into_iter().enumerate() {
        let (store, scope) = (Arc::clone(&home.store), world.as_owner());
        commits.spawn(async move { (n, store.commit(&scope, changes).await) });
    }
    while home.store.lanes.len() < count {
        tokio::task::yield_now().await;
    }
    release.send(()).unwrap();
    let mut results = commits.join_all().await;
    holder.join().unwrap();
    results.sort_by_key(|(n, _)| *n);
    results.into_iter().map(|(_, result)| result).collect()
}

fn message(world: &World, text: &str) -> ChangeSet {
    ChangeSet {
        events: vec![world.message(world.session.log, text)],
        audit: vec![world.audit("message.said")],
        ..ChangeSet::default()
    }
}

fn part(world: &World, bytes: usize) -> ChangeSet {
    let mut state = 1_u64;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    });
    let body: Bytes = noise.take(bytes).collect::<Vec<u8>>().into();
    writing(vec![Write::PutPayloadPart { payload: world.payload_id(), part: 0, body }])
}

async fn audit_rows(home: &Home, world: &World) -> u64 {
    let report = home.store.verify_audit(&world.as_owner(), None).await.unwrap();
    assert_eq!(report.problem, None);
    report.intact
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_set_that_fails_leaves_the_others_of_its_group() {
    let home = Home::new();
    let world = home.world().await;
    let stale = Expectation::SessionRevision { session: world.session.id, revision: 9 };
    let mut changes: Vec<ChangeSet> = (0..8).map(|n| message(&world, &n.to_string())).collect();
    changes[3].expects.push(stale);
    let lost = world.draft_session().log;
    changes[5].events.push(world.message(lost, "nowhere"));

    let results = commit_together(&home, &world, changes).await;

    let failed: Vec<usize> = (0..8).filter(|n| results[*n].is_err()).collect();
    assert_eq!(failed, [3, 5]);
    let mut seqs: Vec<u64> = results.iter().flatten().map(|done| done.events[0].seq).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, [2, 3, 4, 5, 6, 7]);
    assert_eq!(world.log(world.session.id).await.len(), 7);
    assert_eq!(audit_rows(&home, &world).await, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_missed_only_at_the_end_fails_its_own_change_set() {
    let home = Home::new();
    let world = home.world().await;
    let unknown = world.draft_session();
    let orphan = writing(vec![Write::CreateTicket(Box::new(world.task(&unknown)))]);

    let results =
        commit_together(&home, &world, vec![message(&world, "a"), orphan, message(&world, "b")])
            .await;

    assert!(results[0].is_ok() && results[2].is_ok());
    assert!(matches!(results[1], Err(StoreError::Conflict(Conflict::Missing(_)))));
    assert_eq!(world.log(world.session.id).await.len(), 3);
    assert_eq!(audit_rows(&home, &world).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_what_does_not_fit_keeps_reads_alive_and_is_left_without_restart() {
    let home = Home::new();
    let world = home.world().await;
    let limit = home.number("PRAGMA page_count").await + 8;
    set_page_limit(&home, limit).await;

    assert!(loses_transaction(&home).await, "else this test proves little");
    let large = || part(&world, 200 * 1024);
    let changes = vec![message(&world, "a"), large(), message(&world, "b")];
    let results = commit_together(&home, &world, changes).await;
    let alone = world.store.commit(&world.as_owner(), large()).await;
    let while_full = world.log(world.session.id).await.len();
    let checked = home.store.check(SystemScope::for_purpose("test")).await;
    set_page_limit(&home, 1_000_000).await;
    let later = world.store.commit(&world.as_owner(), large()).await;

    assert!(results[0].is_ok() && results[2].is_ok(), "{results:?}");
    assert!(matches!(results[1], Err(StoreError::Full)), "{results:?}");
    assert!(matches!(alone, Err(StoreError::Full)), "{alone:?}");
    assert_eq!(while_full, 3);
    assert!(checked.is_ok(), "the probe itself fits: {checked:?}");
    assert!(later.is_ok(), "{later:?}");
    assert_eq!(audit_rows(&home, &world).await, 3);
}

/// Whether SQLite ends the whole transaction when such a row does not fit, as it may.
async fn loses_transaction(home: &Home) -> bool {
    let lost = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&lost);
    let attempt = home.store.write(Lane::Interactive, move |connection| {
        let inserted = connection
            .execute("INSERT INTO payload_parts VALUES (x'', x'', 0, 0, zeroblob(204800))", []);
        seen.store(connection.is_autocommit(), Ordering::Relaxed);
        Ok(inserted?)
    });
    assert!(matches!(attempt.await, Err(StoreError::Full)));
    lost.load(Ordering::Relaxed)
}

async fn set_page_limit(home: &Home, pages: i64) {
    home.store
        .write(Lane::Interactive, move |connection| {
            Ok(connection.pragma_update(None, "max_page_count", pages)?)
        })
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_work_goes_on_beside_interactive_work() {
    let home = Home::new();
    let world = home.world().await;
    let mut changes: Vec<ChangeSet> = (0..64).map(|n| message(&world, &n.to_string())).collect();
    changes.extend((0..4).map(|_| ChangeSet { lane: Lane::Bulk, ..part(&world, 256 * 1024) }));

    let results = commit_together(&home, &world, changes).await;

    assert!(results.iter().all(Result::is_ok));
    assert_eq!(world.log(world.session.id).await.len(), 65);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_queued_happens_though_its_caller_went_away() {
    let home = Home::new();
    let world = home.world().await;
    let (store, scope, changes) =
        (Arc::clone(&home.store), world.as_owner(), message(&world, "unattended"));

    {
        let mut commit = Box::pin(store.commit(&scope, changes));
        let first_poll = futures::poll!(commit.as_mut());
        assert!(first_poll.is_pending());
    }
    home.store.write(Lane::Interactive, |_| Ok(())).await.unwrap();

    assert_eq!(world.log(world.session.id).await.len(), 2);
}
