//! Pure decisions, tested as tables.

pub mod access;
pub mod active_files;
pub mod pace;
pub mod summary;
pub mod text;
