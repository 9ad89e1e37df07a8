//! What agents ask before they act.

pub(crate) mod answer;
pub(crate) mod list;
