//! Reads, each in a short transaction that sees one org.

mod event;
mod payload;
mod people;
mod session;
mod system;
mod turn;
