//! How an agent has passages looked for, when its instruction alone does not say it well.

use super::Chunk;

/// Decides what is looked for, and what of it is worth having. Pure: the same words give the same decision.
pub trait Lookup: Send + Sync {
    /// How many of the instructions before it wants to know of.
    fn recalls(&self, instruction: &str) -> u32;

    fn look_for(&self, asked: Asked<'_>) -> LookFor;

    /// Which of the passages the agent is given, the best first.
    fn choose(&self, asked: Asked<'_>, found: Vec<Chunk>) -> Vec<Chunk>;
}

/// An instruction, with those before it that were wanted.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub instruction: &'a str,
    /// Oldest first.
    pub earlier: &'a [String],
}

/// The words and places of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookFor {
    pub text: String,
    /// Path patterns; empty means everywhere. What the request says of paths is stronger.
    pub paths: Vec<String>,
    pub limit: u32,
}
