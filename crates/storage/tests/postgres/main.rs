//! The PostgreSQL engine on a real server.
#![expect(clippy::expect_used, reason = "a database that cannot be made fails its test")]

mod access;
mod audit;
mod contract;
mod isolation;
mod reconnect;
mod server;
#[path = "../shared/tampering.rs"]
mod tampering;
mod tenure;
