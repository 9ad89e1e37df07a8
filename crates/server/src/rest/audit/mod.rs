//! The audit log of the caller's organisation.

pub(crate) mod list;
pub(crate) mod verify;
