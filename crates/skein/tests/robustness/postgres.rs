//! The robustness suite again, with sessions in PostgreSQL.
//!
//! Not here: `disk_full`, `sync_before_ack` and `trace` look at the file that SQLite writes; what PostgreSQL does with its
//! disk is its own.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by panicking and tells what it does, also in its helpers"
)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../harness/mod.rs"]
mod harness;

mod cluster;
mod database_restart;
mod dispatch;
mod drain;
mod flood;
mod kill;
mod proxy;
mod races;
mod resume;
mod retries;
mod scale;
mod second_server;
mod slow_reader;
mod start;
mod timing;
mod verify;
mod writers;
