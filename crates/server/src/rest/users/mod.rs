//! People.

pub(crate) mod edit;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod sessions;
