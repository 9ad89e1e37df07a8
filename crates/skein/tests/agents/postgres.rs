//! The stories about agents in which the store has a say, told on the other engine.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by panicking and tells what it does, also in its helpers"
)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../harness/mod.rs"]
#[expect(dead_code, reason = "the other suites use the rest")]
mod harness;
#[path = "../robustness/scale.rs"]
mod scale;

mod binary;
#[expect(dead_code, reason = "the same suite on SQLite uses the rest")]
mod desk;
mod limit;
mod permissions;
#[expect(dead_code, reason = "the same suite on SQLite uses the rest")]
mod processes;
mod restart;
