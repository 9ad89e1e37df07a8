//! What a question asks for: the tokens to look up, and the names that it may mean.

use std::collections::HashSet;

use crate::tokens::{folded, tokens};

/// A question says what it is about early; the rest may be a pasted log.
const MAX_TEXT_BYTES: usize = 8 * 1024;
const MAX_TERMS: usize = 64;
const MAX_NAMES: usize = 96;

/// Words that carry a question and not its subject.
const STOP_WORDS: &str = "\
    a about all also am an and any are as at be been before being but by can code could defined \
    did do does each every explain find for from get gets give given had happen happens has have \
    how i if implement implementation implemented in into is it its made make me my no not of on \
    one or our out please self show so some tell that the their them then there these they this \
    those to up use used uses using via was we were what when where which while who why will \
    with work works would you your";

/// A question, taken apart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    /// Tokens, each once.
    pub terms: Vec<String>,
    /// What a definition may be called, with how surely it is meant.
    pub names: Vec<(String, f64)>,
    /// Whether tests are asked for.
    pub is_about_tests: bool,
}

impl Question {
    pub(crate) fn of(text: &str) -> Self {
        let words = words(head(text));
        let telling: Vec<&str> = words.iter().copied().filter(|word| !is_stop_word(word)).collect();
        let words = if telling.is_empty() { words } else { telling };
        let is_about_tests = words.iter().any(|word| word.to_ascii_lowercase().starts_with("test"));
        Self { terms: terms(&words), names: names(&words), is_about_tests }
    }
}

/// What a token tells that `count` of the `passages` have: rare ones tell more.
pub(crate) fn rarity(count: u64, passages: u64) -> f64 {
    let (count, passages) = (count as f64, passages.max(count) as f64);
    (1.0 + (passages - count + 0.5) / (count + 0.5)).ln()
}

fn head(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn words(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.filter(|word| word.chars().any(char::is_alphanumeric)).collect()
}

fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.split(' ').any(|stop| stop.eq_ignore_ascii_case(word))
}

fn terms(words: &[&str]) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut terms = Vec::new();
    for word in words {
        tokens(word, |token| {
            if terms.len() < MAX_TERMS && seen.insert(token.to_owned()) {
                terms.push(token.to_owned());
            }
        });
    }
    terms
}

/// `MaxBytes` surely is a name; "max bytes" may be one, and "bytes" less so.
fn names(words: &[&str]) -> Vec<(String, f64)> {
    let mut names: Vec<(String, f64)> = Vec::new();
    let mut add = |name: String, weight: f64| {
        if name.len() >= 3
            && names.len() < MAX_NAMES
            && !names.iter().any(|(known, _)| *known == name)
        {
            names.push((name, weight));
        }
    };
    for word in words {
        add(folded(word), if is_identifier(word) { 1.0 } else { 0.25 });
    }
    for (count, weight) in [(2, 0.5), (3, 0.6)] {
        for run in words.windows(count) {
            add(folded(&run.concat()), weight);
        }
    }
    names
}

fn is_identifier(word: &str) -> bool {
    let inner = word.trim_matches('_');
    let has_capital_inside = inner.chars().skip(1).any(char::is_uppercase);
    let has_lower = inner.chars().any(char::is_lowercase);
    inner.contains('_') || word.starts_with('_') || has_capital_inside && has_lower
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_about_its_subject() {
        let question = Question::of("Where is the IndexJob made?");

        assert_eq!(question.terms, ["index", "job", "indexjob"]);
        assert_eq!(question.names, [("indexjob".to_owned(), 1.0)]);
    }

    #[test]
    fn a_question_of_nothing_but_small_words_is_taken_as_it_is() {
        assert_eq!(Question::of("what is this").terms, ["what", "is", "this"]);
    }

    #[test]
    fn syntax_is_no_part_of_a_question() {
        let question = Question::of("\"foo\" AND (bar* OR NEAR(baz, 2)) - ^col:qux");

        assert_eq!(question.terms, ["foo", "bar", "near", "baz", "2", "col", "qux"]);
    }

    #[test]
    fn names_may_be_written_in_words() {
        let question = Question::of("connection pool");

        assert!(question.names.contains(&("connectionpool".to_owned(), 0.5)));
    }
}
