//! From the parts of a request to checked values.

mod body;
mod headers;
mod path;
mod query;

pub(crate) use body::{Creating, Strict};
pub(crate) use headers::{ETag, IfMatch, accepts_event_stream, event_position, replayed};
pub(crate) use path::{PathId, PermissionPath, TurnPath};
#[cfg(test)]
pub(crate) use query::parse_parameters;
pub(crate) use query::{Known, Parameters, invalid, position};
