//! What tests of every crate share: fixed time and ids, a world to start from, the contract of the store as stories,
//! and agents that follow a script.
//!
//! A storage engine proves itself with one small file:
//!
//! ```text
//! async fn open() -> skein_testkit::TestStore {
//!     let home = tempfile::tempdir().unwrap();
//!     let store = Engine::open(home.path()).await.unwrap();
//!     skein_testkit::TestStore::ready(Arc::new(store), home)
//! }
//!
//! skein_testkit::contract_tests!(open);
//! ```
#![expect(clippy::expect_used, reason = "a fixture that cannot be built fails its test")]

pub mod agent;
pub mod embeddings;
mod fixed;
mod passages;
pub mod responses;
pub mod retrieval;
mod scripted;
pub mod stories;
mod test_store;
mod world;

pub use fixed::{FixedSecrets, SeededIds, StoppedClock};
pub use passages::{ScriptedRetriever, passage};
pub use scripted::{Gate, ScriptedRuntime, Step};
pub use test_store::TestStore;
pub use world::{World, note, said, writing};
