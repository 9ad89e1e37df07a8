//! Access tokens.

pub(crate) mod create;
pub(crate) mod list;
pub(crate) mod revoke;
