//! Agents in their cage, with and without bubblewrap: what they cannot reach, and that they end.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

mod desk;
mod endings;
mod escapes;
mod limits;
mod outside;
mod pipes;
mod refusals;
