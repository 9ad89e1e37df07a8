//! Every operation of the served description, asked by everyone who has no right to the answer.
//!
//! A victim's data is full of marks. Whatever a caller without rights sends, with the victim's ids in every place where
//! an id can stand, no mark comes back, nothing of the victim's changes, and the answer is the one that an id gets
//! which nobody has.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, also in its helpers"
)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../harness/mod.rs"]
#[expect(dead_code, reason = "shared with tests that use more of it")]
mod harness;

mod attack;
mod callers;
mod document;
mod table;
mod target;
mod victim;

use attack::Attack;
use callers::Caller;
use common::TestHome;
use document::Document;
use reqwest::Method;
use target::Target;
use victim::Victim;

/// What shows marks to those who may see them; without them there would be nothing to leak.
const TELLING: [&str; 17] = [
    "follow_events",
    "get_conversation_context",
    "get_agent_context",
    "get_payload",
    "get_session",
    "get_turn",
    "get_user",
    "last_turn",
    "list_agent_contexts",
    "list_audit",
    "list_conversation_contexts",
    "list_messages",
    "list_repos",
    "list_sessions",
    "list_turns",
    "list_users",
    "summarize_turn",
];

#[tokio::test]
async fn on_sqlite_nobody_learns_or_changes_what_is_not_theirs() {
    println!("{} requests", run(Target::on(TestHome::new())).await);
}

#[tokio::test]
async fn on_postgresql_nobody_learns_or_changes_what_is_not_theirs() {
    let Some(home) = TestHome::on_postgres() else { return };

    println!("{} requests", run(Target::on(home)).await);
}

/// How many requests were sent.
async fn run(target: Target) -> usize {
    let (_server, owner) = target.start().await;
    let document = Document::served_by(&owner).await;
    let gaps = table::gaps(&document);
    assert!(gaps.is_empty(), "to be added to table.rs:\n{}", gaps.join("\n"));
    let victim = Victim::plant(&owner, target.root()).await;
    let callers = Caller::all(&owner, &victim).await;
    let before = victim.snapshot().await;

    let mut attack = Attack::default();
    for caller in &callers {
        for operation in &document.operations {
            for request in &table::requests(operation) {
                attack.run(caller, operation, request).await;
            }
        }
    }
    let after = victim.snapshot().await;
    let telling = control(&mut attack, &document, &Caller::admin(&victim)).await;

    assert!(attack.findings.is_empty(), "{}", attack.report());
    assert_eq!(after, before, "what is the victim's was changed");
    let hidden: Vec<_> = TELLING.iter().filter(|id| !telling.iter().any(|t| t == *id)).collect();
    assert!(hidden.is_empty(), "no mark is in what an admin sees of {hidden:?}");
    attack.sent
}

/// Sends everything once as an admin, reading first; gives back the operations whose answers had marks.
async fn control(attack: &mut Attack, document: &Document, admin: &Caller) -> Vec<String> {
    let mut telling = Vec::new();
    let (reads, changes): (Vec<_>, Vec<_>) =
        document.operations.iter().partition(|operation| operation.method == Method::GET);
    for operation in reads.into_iter().chain(changes) {
        for request in &table::requests(operation) {
            if attack.control(admin, operation, request).await {
                telling.push(operation.id.clone());
            }
        }
    }
    telling
}
