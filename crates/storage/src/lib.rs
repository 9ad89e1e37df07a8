//! Engines behind the storage ports.

mod asked;
pub mod audit_chain;
pub mod codec;
pub mod migrations;
pub mod postgres;
pub mod sqlite;
mod usage;
