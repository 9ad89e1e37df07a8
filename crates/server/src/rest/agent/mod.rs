//! One call from instruction to answer.

pub(crate) mod execute;
pub(crate) mod plan;
