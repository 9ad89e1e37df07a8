//! What goes to a model, what is kept back, and what is kept: the core on a real SQLite file, with the Responses runtime
//! against a strict server on a real socket, and a clock that the test moves.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a fixture that cannot be built fails its test"
)]

mod bundles;
mod chains;
mod deltas;
mod desk;
mod queue;
