//! Stories told by callers of the real binary over real HTTP: every route in its normal form and its refusals.

// Whole sessions and turns are large literals.
#![recursion_limit = "256"]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, also in its helpers"
)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../harness/mod.rs"]
mod harness;

mod audit;
mod bare_http;
mod events;
mod execute;
mod idempotency;
mod limits;
mod messages;
mod operations;
mod payloads;
mod people;
mod queue;
mod redact;
mod refusals;
mod registry;
mod retrieval;
mod sessions;
mod shapes;
mod tokens;
mod transitions;
mod turns;

use common::TestServer;
use harness::{AGENTS, Api};

/// A server with predictable agents, and its owner.
async fn start() -> (TestServer, Api) {
    let server = TestServer::with_config(AGENTS).await;
    let api = Api::of(&server);
    (server, api)
}
