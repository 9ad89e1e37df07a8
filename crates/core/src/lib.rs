//! What Skein does, without any I/O: the model, the decisions, the ports and the use cases.

#![warn(clippy::wildcard_enum_match_arm)]

pub mod agents;
pub mod auditing;
pub mod documents;
mod error;
pub mod feed;
pub mod history;
pub mod hosting;
pub mod indexing;
pub mod intake;
pub mod model;
pub mod orchestrator;
pub mod payloads;
pub mod people;
pub mod permissions;
pub mod platform;
pub mod policy;
pub mod ports;
pub mod recovery;
pub mod registry;
pub mod sessions;

pub use error::Error;
