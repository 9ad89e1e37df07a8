//! What Skein does, without any I/O: the model, the decisions, the ports and the use cases.

pub mod model;
pub mod policy;
pub mod ports;
