//! The Responses runtime against a strict double of the API, and against bare bytes, over real sockets.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what the tests share fails with the test that uses it"
)]

mod background;
mod bodies;
mod calls;
mod streams;
mod support;
