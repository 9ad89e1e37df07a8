//! Whatever the owner of the database does to the audit log is named by the check; sealing keeps its order.

use std::sync::Arc;

use skein_core::{
    model::{AuditProblem, SystemScope},
    ports::{ChangeSet, Storage},
};
use skein_testkit::World;
use tokio_postgres::Client;

use super::{
    server::{Server, connect},
    tampering::{TAMPERINGS, log_of_five, verify},
};

const UNPROTECT: &str =
    "DROP TRIGGER audit_only_seals ON audit; DROP TRIGGER audit_keeps_rows ON audit;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_tampering_with_the_log_is_named() {
    let Some(server) = Server::from_environment() else { return };
    for tampering in TAMPERINGS {
        let database = server.fresh_database().await;
        let (world, head) = log_of_five(Arc::new(database.open(2).await)).await;
        let (intruder, _driver) = connect(&database.owner).await;
        set_org(&intruder, &world).await;

        intruder.batch_execute(tampering.sql).await.expect_err(tampering.what);
        assert_eq!(verify(&world, Some(head)).await.problem, None, "{}", tampering.what);
        intruder.batch_execute(UNPROTECT).await.expect("no triggers");
        intruder.batch_execute(tampering.sql).await.expect(tampering.what);

        let report = verify(&world, Some(head)).await;
        assert_eq!(report.problem, Some(tampering.found), "{}", tampering.what);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_was_cut_and_has_grown_again_is_told_by_a_head_that_was_kept() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let (world, head) = log_of_five(Arc::new(database.open(2).await)).await;
    let (intruder, _driver) = connect(&database.owner).await;
    set_org(&intruder, &world).await;
    intruder.batch_execute(UNPROTECT).await.expect("no triggers");
    intruder.batch_execute("DELETE FROM audit WHERE chain_no > 3").await.expect("a cut");
    for _ in 0..4 {
        audit(&world).await;
    }
    seal(&world).await;

    let unsuspecting = verify(&world, None).await;
    let report = verify(&world, Some(head)).await;

    assert_eq!((unsuspecting.intact, unsuspecting.problem), (7, None));
    assert_eq!(report.problem, Some(AuditProblem::Truncated { found: 4, expected: 5 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_becomes_visible_late_is_chained_late() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let world = World::new(Arc::new(database.open(4).await)).await;
    seal(&world).await;
    let (slow, _driver) = connect(&database.app).await;
    set_org(&slow, &world).await;

    // It has its `n` before the row that follows, and is committed after that one was sealed.
    slow.batch_execute("BEGIN").await.expect("a transaction");
    slow.execute(
        "INSERT INTO audit (org_id, at, actor, action, target, detail)
         VALUES ($1, now(), $1, 'slow', 'slow', '{}')",
        &[world.org.id.as_uuid()],
    )
    .await
    .expect("a row");
    audit(&world).await;
    seal(&world).await;
    slow.batch_execute("COMMIT").await.expect("the end");
    let waiting = verify(&world, None).await;
    seal(&world).await;

    let rows = world.store.list_audit(&world.as_owner(), 0, 9).await.expect("rows");
    let actions: Vec<&str> = rows.iter().map(|row| row.action.as_str()).collect();
    assert_eq!((waiting.intact, waiting.unsealed, waiting.problem), (2, 1, None));
    assert_eq!(actions, ["session.created", "test.done", "slow"]);
    let by_n: Vec<i64> = slow
        .query("SELECT chain_no FROM audit ORDER BY n", &[])
        .await
        .expect("rows")
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(by_n, [1, 3, 2]);
    assert_eq!(verify(&world, None).await.problem, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_orgs_broken_log_does_not_keep_anothers_open() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let store: Arc<dyn Storage> = Arc::new(database.open(4).await);
    let acme = World::named(Arc::clone(&store), "Acme", 1).await;
    let globex = World::named(store, "Globex", 2).await;
    seal(&acme).await;
    let (intruder, _driver) = connect(&database.owner).await;
    set_org(&intruder, &acme).await;
    intruder.batch_execute(UNPROTECT).await.expect("no triggers");
    intruder.batch_execute("UPDATE audit SET chain_hash = ''").await.expect("a broken head");
    for world in [&acme, &globex] {
        audit(world).await;
    }

    seal(&globex).await;

    let report = verify(&globex, None).await;
    assert_eq!((report.intact, report.unsealed, report.problem), (2, 0, None));
    let report = verify(&acme, None).await;
    assert_eq!((report.intact, report.unsealed), (0, 1));
    assert_eq!(report.problem, Some(AuditProblem::Changed { number: 1 }));
}

async fn audit(world: &World) {
    let audit = vec![world.audit("test.done")];
    world.commit(ChangeSet { audit, ..ChangeSet::default() }).await;
}

async fn seal(world: &World) {
    world.store.seal_audit(SystemScope::for_purpose("test")).await.expect("a seal");
}

/// Row-level security binds the owner too.
async fn set_org(client: &Client, world: &World) {
    let org = world.org.id.to_string();
    client.execute("SELECT set_config('skein.org', $1, false)", &[&org]).await.expect("a setting");
}
