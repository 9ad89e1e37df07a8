//! The command line as people and scripts meet it: the real binary, in homes of its own.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, also in its helpers"
)]

#[path = "../common/mod.rs"]
mod common;

mod administration;
mod agents;
mod ask;
mod config;
mod cuts;
mod desk;
mod doctor;
mod edits;
mod git;
mod index;
mod migrate;
mod postgres;
mod providers;
mod proxy;
mod reference;
mod serve;
mod sessions;
mod tokens;
mod up;
mod watch;
