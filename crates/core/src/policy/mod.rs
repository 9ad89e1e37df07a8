//! Pure decisions, tested as tables.

pub mod access;
pub mod active_files;
pub mod budget;
pub mod chain;
pub mod delta;
pub mod file_bundle;
pub mod freshness;
pub mod pace;
pub mod permission;
pub mod rehydration;
pub mod summary;
pub mod text;
pub mod tokens;
