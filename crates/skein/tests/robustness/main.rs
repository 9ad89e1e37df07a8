//! What must hold when things go wrong: crashes, cut connections, races, a full disk, a missing sync.
//!
//! Small by default. `SKEIN_ROBUSTNESS=large` makes it as large as the project promises, and
//! `SKEIN_SEED` repeats a run; every test prints the seed that it used.

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

mod disk_full;
mod dispatch;
mod drain;
mod flood;
mod kill;
mod proxy;
mod races;
mod resume;
mod retries;
mod scale;
mod slow_reader;
mod start;
mod sync_before_ack;
mod timing;
mod trace;
mod verify;
mod writers;
