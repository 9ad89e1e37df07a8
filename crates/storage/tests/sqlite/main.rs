//! The SQLite engine on files.
#![expect(clippy::expect_used, reason = "a store that cannot be made fails its test")]

mod audit;
mod contract;
#[path = "../shared/tampering.rs"]
mod tampering;
