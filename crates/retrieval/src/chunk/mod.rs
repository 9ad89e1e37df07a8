//! Takes texts apart into passages: along syntax, along headings, or in windows of lines.
//!
//! Every passage is a range of whole lines as they are in the text; no two overlap, and every line that is not blank
//! is in one. Only a line that is longer than a passage may be is cut, and its parts bear the same line number.

mod headings;
mod lines;
mod names;
mod roles;
mod syntax;
mod units;

use std::collections::HashMap;

use skein_core::model::Sha256Hash;
use tree_sitter::Parser;

use self::{lines::Lines, units::Unit};
use crate::language::{Grammar, Language, Reading};

/// Larger definitions are split. About what a model can take dozens of.
const MAX_BYTES: usize = 2_400;
const MAX_LINES: usize = 80;

/// Texts above this are not parsed: only uploaded documents can be so large.
const MAX_PARSED_BYTES: usize = 1024 * 1024;

/// Part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// What it defines, outermost first, such as `Pool::acquire`; or the headings above it.
    pub symbols: Vec<String>,
    /// From 1.
    pub start_line: u32,
    /// Inclusive.
    pub end_line: u32,
    /// The lines as they are, without the end of the last.
    pub text: String,
    pub sha256: Sha256Hash,
}

/// Keeps the parsers that it has made. Each thread needs its own.
#[derive(Default)]
pub struct Chunker {
    parsers: HashMap<Grammar, Parser>,
}

impl Chunker {
    pub fn split(&mut self, text: &str, language: Option<Language>) -> Vec<Passage> {
        let lines = Lines::of(text);
        let units = match language.map(|language| language.reading) {
            Some(Reading::Syntax(grammar)) if text.len() <= MAX_PARSED_BYTES => {
                self.by_syntax(&lines, grammar)
            }
            Some(Reading::Headings) => Some(headings::units(&lines)),
            _ => None,
        };
        let units = units.unwrap_or_else(|| units::whole(&lines));
        let mut passages = units::passages(&lines, units);
        if language.is_some_and(|language| language.is_code()) {
            for passage in passages.iter_mut().filter(|passage| passage.symbols.is_empty()) {
                passage.symbols = names::guessed(&passage.text);
                passage.symbols.truncate(units::MAX_SYMBOLS);
            }
        }
        passages
    }

    /// None when the text is not written in that language after all.
    fn by_syntax(&mut self, lines: &Lines<'_>, grammar: Grammar) -> Option<Vec<Unit>> {
        let parser = match self.parsers.entry(grammar) {
            std::collections::hash_map::Entry::Occupied(parser) => parser.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                let mut parser = Parser::new();
                parser.set_language(&grammar.language()).ok()?;
                place.insert(parser)
            }
        };
        let tree = parser.parse(lines.text(), None)?;
        syntax::units(lines, grammar, &tree)
    }
}

#[cfg(test)]
#[path = "chunk_tests.rs"]
mod tests;
