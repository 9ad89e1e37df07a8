//! Agents over the Agent Client Protocol, from the outside: the real binary, real HTTP, and agents that are real processes.
//!
//! Most of them follow a script; see `skein_testkit::agent`. Those in `real` are what people use, and are skipped where
//! `scripts/agents/install` could not install them.

#![recursion_limit = "256"]
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

mod activity;
mod binary;
mod cancel;
mod crashes;
mod cycles;
mod desk;
mod docs;
mod floods;
mod garbage;
mod idle;
mod lifecycle;
mod limit;
mod messages;
mod permissions;
mod processes;
mod real;
mod restart;
