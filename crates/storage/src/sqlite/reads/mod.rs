//! The read ports. Each read is short, runs on one of the reader threads and sees one org only.

mod audit;
mod chain;
mod configured;
mod document;
mod event;
mod payload;
mod people;
mod permission;
mod registry;
mod segments;
mod session;
mod session_list;
mod system;
mod turn;
mod turn_parts;
mod usage;
