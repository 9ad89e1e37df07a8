//! Texts that were uploaded to a session.

pub(crate) mod create;
pub(crate) mod list;
