//! Stories with a model: the real binary over real HTTP, and a strict provider of the Responses API on a real socket.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, also in its helpers"
)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../harness/mod.rs"]
#[expect(dead_code, reason = "the other suites use the rest")]
mod harness;

mod answers;
mod contexts;
mod conversations;
mod desk;
mod failures;
mod independent;
mod keys;
mod passages;
mod plans;
mod refusals;
mod settings;
mod turns;
