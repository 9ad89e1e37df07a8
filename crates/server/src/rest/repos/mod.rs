//! Repositories.

pub(crate) mod create;
pub(crate) mod get;
pub(crate) mod index;
pub(crate) mod index_remove;
pub(crate) mod index_status;
pub(crate) mod list;
pub(crate) mod search;
