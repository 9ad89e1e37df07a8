//! Passages of repositories and documents: how they are made, kept and found.
//!
//! [`walk`] gives the files, [`chunk`] takes them apart, [`tokens`] makes them findable; [`embedded`] or [`qdrant`] keeps them.

pub mod chunk;
mod claims;
pub mod embed;
pub mod embedded;
mod fault;
mod filter;
mod fusion;
mod http;
mod language;
mod passage_id;
mod pipeline;
pub mod qdrant;
mod query;
mod rank;
pub mod tokens;
pub mod walk;

pub use embedded::EmbeddedIndex;
pub use language::{Language, detect, of_media_type};
pub use qdrant::QdrantIndex;
