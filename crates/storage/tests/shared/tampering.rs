//! What somebody can do to an audit log who has the database, and what the check must say to it.

use std::sync::Arc;

use skein_core::{
    model::{AuditHead, AuditProblem, AuditReport, SystemScope},
    ports::{ChangeSet, Storage},
};
use skein_testkit::World;

/// One way to tamper with a log of five rows.
pub(crate) struct Tampering {
    pub(crate) what: &'static str,
    /// The same text for both engines; sees one org only.
    pub(crate) sql: &'static str,
    pub(crate) found: AuditProblem,
}

pub(crate) const TAMPERINGS: [Tampering; 9] = [
    Tampering {
        what: "the target of a row is another",
        sql: "UPDATE audit SET target = 'org/other' WHERE chain_no = 3",
        found: AuditProblem::Changed { number: 3 },
    },
    Tampering {
        what: "the first row is by somebody else",
        sql: "UPDATE audit SET actor = org_id WHERE chain_no = 1",
        found: AuditProblem::Changed { number: 1 },
    },
    Tampering {
        what: "the hash of the last row is another",
        sql: "UPDATE audit SET chain_hash = (SELECT chain_hash FROM audit WHERE chain_no = 1)
              WHERE chain_no = 5",
        found: AuditProblem::Changed { number: 5 },
    },
    Tampering {
        what: "a row is gone",
        sql: "DELETE FROM audit WHERE chain_no = 3",
        found: AuditProblem::Missing { number: 3 },
    },
    Tampering {
        what: "the first row is gone",
        sql: "DELETE FROM audit WHERE chain_no = 1",
        found: AuditProblem::Missing { number: 1 },
    },
    Tampering {
        what: "two neighbours have changed places",
        sql: "UPDATE audit SET chain_no = -1 WHERE chain_no = 3;
              UPDATE audit SET chain_no = 3 WHERE chain_no = 4;
              UPDATE audit SET chain_no = 4 WHERE chain_no = -1;",
        found: AuditProblem::Reordered { number: 3 },
    },
    Tampering {
        what: "the second and the last row have changed places",
        sql: "UPDATE audit SET chain_no = -1 WHERE chain_no = 2;
              UPDATE audit SET chain_no = 2 WHERE chain_no = 5;
              UPDATE audit SET chain_no = 5 WHERE chain_no = -1;",
        found: AuditProblem::Reordered { number: 2 },
    },
    Tampering {
        what: "two rows say what the other one said",
        sql: "UPDATE audit SET target = CASE chain_no WHEN 3 THEN 'row/4' ELSE 'row/3' END
              WHERE chain_no IN (3, 4)",
        found: AuditProblem::Reordered { number: 3 },
    },
    Tampering {
        what: "the end is cut off",
        sql: "DELETE FROM audit WHERE chain_no > 3",
        found: AuditProblem::Truncated { found: 3, expected: 5 },
    },
];

/// An org whose log has five sealed rows, each about something else, and the head of that log.
pub(crate) async fn log_of_five(store: Arc<dyn Storage>) -> (World, AuditHead) {
    let world = World::new(store).await;
    for index in 2..=5 {
        let mut entry = world.audit("test.done");
        entry.target = format!("row/{index}");
        world.commit(ChangeSet { audit: vec![entry], ..ChangeSet::default() }).await;
    }
    world.store.seal_audit(SystemScope::for_purpose("test")).await.expect("a seal");
    let whole = verify(&world, None).await;
    assert_eq!((whole.intact, whole.unsealed, whole.problem), (5, 0, None));
    (world, whole.head.expect("a head"))
}

pub(crate) async fn verify(world: &World, seen: Option<AuditHead>) -> AuditReport {
    world.store.verify_audit(&world.as_owner(), seen).await.expect("a report")
}
