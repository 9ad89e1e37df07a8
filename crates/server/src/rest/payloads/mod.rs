//! Full texts and raw bodies.

pub(crate) mod get;
