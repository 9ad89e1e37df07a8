//! What an operator and their tools ask.

pub(crate) mod health;
pub(crate) mod live;
pub(crate) mod metrics;
pub(crate) mod ready;
pub(crate) mod whoami;
