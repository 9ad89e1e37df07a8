//! The audit log: numbered and chained per org, listed by number, checked from its first row.

use std::sync::Arc;

use serde_json::json;
use skein_core::{
    model::{
        AuditHead, AuditProblem, AuditReport, AuditRow, OrgId, Scope, Sha256Hash, SystemScope,
    },
    ports::{AuditEntry, ChangeSet, Clock, Ids, Storage},
};
use tokio::task::JoinSet;

use crate::World;

pub async fn audit_rows_are_numbered_from_one_in_each_org_and_read_back(store: Arc<dyn Storage>) {
    let acme = World::named(Arc::clone(&store), "Acme", 1).await;
    let globex = World::named(Arc::clone(&store), "Globex", 2).await;
    for (world, count) in [(&acme, 3), (&globex, 2)] {
        for _ in 0..count {
            world.commit(audited(world)).await;
        }
    }
    seal(&store).await;

    for (world, count) in [(&acme, 4), (&globex, 3)] {
        let rows = list(world, 0, 100).await;
        // The world's own session was the first to be audited.
        let numbers: Vec<u64> = rows.iter().map(|row| row.number).collect();
        assert_eq!(numbers, (1..=count).collect::<Vec<_>>());
        let entry = entry(world);
        let expected = AuditRow {
            number: 2,
            at: entry.at,
            actor: world.owner.id,
            action: entry.action.to_owned(),
            target: entry.target,
            detail: entry.detail,
            hash: rows[1].hash,
        };
        assert_eq!(rows[1], expected);
    }
}

pub async fn audit_rows_are_listed_by_number_page_by_page(store: Arc<dyn Storage>) {
    let world = World::new(Arc::clone(&store)).await;
    for _ in 0..4 {
        world.commit(audited(&world)).await;
    }
    seal(&store).await;

    let whole = list(&world, 0, 100).await;
    let mut seen: Vec<AuditRow> = Vec::new();
    for wanted in [2, 2, 1, 0] {
        let after = seen.last().map_or(0, |row| row.number);
        let page = list(&world, after, 2).await;
        assert_eq!(page.len(), wanted);
        seen.extend(page);
    }

    assert_eq!(seen, whole);
    assert_eq!(list(&world, 0, 0).await, []);
    assert_eq!(list(&world, u64::MAX, 9).await, []);
}

pub async fn a_refused_change_set_leaves_no_audit_row(store: Arc<dyn Storage>) {
    let world = World::new(Arc::clone(&store)).await;

    let refused = ChangeSet { audit: vec![entry(&world)], ..world.opening(&world.session) };
    world.conflict(refused).await;
    world.commit(audited(&world)).await;
    seal(&store).await;

    assert_eq!(list(&world, 0, 100).await.len(), 2);
    assert_eq!(verify(&world, None).await.intact, 2);
}

pub async fn the_audit_log_has_no_gap_under_many_writers(store: Arc<dyn Storage>) {
    const WRITERS: u64 = 32;
    const ROWS_EACH: u64 = 8;
    let acme = World::named(Arc::clone(&store), "Acme", 1).await;
    let globex = World::named(Arc::clone(&store), "Globex", 2).await;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let world = if writer % 2 == 0 { &acme } else { &globex };
        let (store, scope) = (Arc::clone(&store), world.as_owner());
        let changes = ChangeSet { audit: vec![entry(world); 2], ..ChangeSet::default() };
        writers.spawn(async move {
            for _ in 0..ROWS_EACH / 2 {
                store.commit(&scope, changes.clone()).await.expect("a commit");
                // Several processes seal at once, and while rows arrive.
                store.seal_audit(system()).await.expect("a seal");
            }
        });
    }
    writers.join_all().await;
    seal(&store).await;

    for world in [&acme, &globex] {
        let count = WRITERS / 2 * ROWS_EACH + 1;
        let rows = list(world, 0, 1_000).await;
        let numbers: Vec<u64> = rows.iter().map(|row| row.number).collect();
        assert_eq!(numbers, (1..=count).collect::<Vec<_>>());
        let head = rows.last().map(|row| AuditHead { number: count, hash: row.hash });
        let intact = AuditReport { intact: count, unsealed: 0, head, problem: None };
        assert_eq!(verify(world, head).await, intact);
    }
}

pub async fn a_log_longer_than_a_page_is_checked_whole(store: Arc<dyn Storage>) {
    let world = World::new(Arc::clone(&store)).await;
    for _ in 0..6 {
        let audit = vec![entry(&world); 200];
        world.commit(ChangeSet { audit, ..ChangeSet::default() }).await;
    }
    seal(&store).await;
    let first = verify(&world, None).await;
    world.commit(audited(&world)).await;
    seal(&store).await;

    let second = verify(&world, first.head).await;

    assert_eq!((first.intact, first.problem), (1_201, None));
    assert_eq!((second.intact, second.problem), (1_202, None));
}

pub async fn every_row_is_sealed_or_counted_as_unsealed(store: Arc<dyn Storage>) {
    let world = World::new(Arc::clone(&store)).await;
    world.commit(audited(&world)).await;

    let before = verify(&world, None).await;
    let sealed = store.seal_audit(system()).await.expect("a seal");
    let again = store.seal_audit(system()).await.expect("a seal");
    let after = verify(&world, None).await;

    assert_eq!(before.intact + before.unsealed, 2);
    assert_eq!((sealed, again), (before.unsealed, 0));
    assert_eq!((after.intact, after.unsealed, after.problem), (2, 0, None));
}

pub async fn a_head_that_was_seen_and_is_gone_tells_that_the_log_was_cut(store: Arc<dyn Storage>) {
    let world = World::new(Arc::clone(&store)).await;
    for _ in 0..3 {
        world.commit(audited(&world)).await;
    }
    seal(&store).await;
    let head = verify(&world, None).await.head.expect("a head");

    let further = AuditHead { number: head.number + 5, ..head };
    let other = AuditHead { hash: Sha256Hash::of(b"another log"), ..head };

    let found = verify(&world, Some(further)).await.problem;
    assert_eq!(found, Some(AuditProblem::Truncated { found: 4, expected: 9 }));
    let found = verify(&world, Some(other)).await.problem;
    assert_eq!(found, Some(AuditProblem::Truncated { found: 3, expected: 4 }));
    assert_eq!(verify(&world, Some(head)).await.problem, None);
}

pub async fn an_org_without_rows_has_an_empty_log(store: Arc<dyn Storage>) {
    let world = World::new(Arc::clone(&store)).await;
    let elsewhere = Scope::on_behalf_of(OrgId::from_uuid(world.ids.next()), world.owner.id);

    let report = store.verify_audit(&elsewhere, None).await.expect("a report");

    assert_eq!(report, AuditReport::default());
    assert_eq!(store.list_audit(&elsewhere, 0, 9).await.expect("rows"), []);
}

fn audited(world: &World) -> ChangeSet {
    ChangeSet { audit: vec![entry(world)], ..ChangeSet::default() }
}

fn entry(world: &World) -> AuditEntry {
    AuditEntry {
        at: world.clock.now(),
        action: "test.done",
        target: format!("org/{} – „Zürich“", world.org.id),
        detail: json!({"text": "日本語 🧶", "z": 1, "a": [null, 1.5, {"deep": true}]}),
    }
}

async fn seal(store: &Arc<dyn Storage>) {
    store.seal_audit(system()).await.expect("a seal");
}

async fn list(world: &World, after: u64, limit: u32) -> Vec<AuditRow> {
    world.store.list_audit(&world.as_owner(), after, limit).await.expect("audit rows")
}

async fn verify(world: &World, seen: Option<AuditHead>) -> AuditReport {
    world.store.verify_audit(&world.as_owner(), seen).await.expect("a report")
}

fn system() -> SystemScope {
    SystemScope::for_purpose("test")
}
