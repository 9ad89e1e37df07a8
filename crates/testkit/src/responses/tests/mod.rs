//! The double proves itself over a plain socket, with a client that shows every byte.

mod answers;
mod background;
mod client;
mod refusals;
mod wires;
