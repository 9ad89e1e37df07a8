//! People.

pub(crate) mod sessions;
