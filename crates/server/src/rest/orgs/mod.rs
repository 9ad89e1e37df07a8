//! Tenants.

pub(crate) mod create;
pub(crate) mod create_user;
