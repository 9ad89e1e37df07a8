//! Lines that define something, told by their first words: enough to put the right one first.

use super::{question::Question, words};

/// What may stand before the word that defines.
const MODIFIERS: &[&str] = &[
    "pub",
    "export",
    "default",
    "async",
    "unsafe",
    "extern",
    "public",
    "private",
    "protected",
    "internal",
    "abstract",
    "final",
    "sealed",
    "partial",
    "override",
    "inline",
    "virtual",
    "static",
    "create",
    "temporary",
    "declare",
    "data",
];
const KEYWORDS: &[&str] = &[
    "fn",
    "struct",
    "enum",
    "trait",
    "type",
    "union",
    "macro_rules",
    "class",
    "interface",
    "def",
    "function",
    "func",
    "namespace",
    "record",
    "const",
    "typedef",
    "table",
    "view",
    "define",
];

/// What a line defines: the word after `fn`, `class`, `def` …, or a Markdown heading.
pub(super) fn defined_name(line: &str) -> Option<&str> {
    let line = line.trim();
    if let Some(heading) = line.strip_prefix('#').map(|rest| rest.trim_start_matches('#'))
        && let Some(title) = heading.strip_prefix(' ')
    {
        return Some(title.trim()).filter(|title| !title.is_empty());
    }
    let mut rest = line.trim_start_matches('#');
    loop {
        let (word, after) = word(rest)?;
        let lower = word.to_ascii_lowercase();
        if KEYWORDS.contains(&lower.as_str()) {
            return name_after(after);
        }
        if !MODIFIERS.contains(&lower.as_str()) {
            return None;
        }
        // `pub(crate)`
        rest = match after.strip_prefix('(') {
            Some(inside) => inside.split_once(')')?.1,
            None => after,
        };
    }
}

/// How much of what is asked for a name is: 1 when it is exactly that.
pub(super) fn likeness(name: &str, question: &Question) -> f64 {
    let parts = words::stems(name);
    let asked = question.terms.iter().filter(|term| parts.contains(&term.stem)).count();
    let longest = parts.len().max(question.terms.len());
    if longest == 0 { 0.0 } else { asked as f64 / longest as f64 }
}

fn name_after(after: &str) -> Option<&str> {
    let mut rest = after.trim_start_matches(['!', ' ', '*', '\t']);
    // The receiver of a method in Go.
    if rest.starts_with('(') {
        rest = rest.split_once(')')?.1;
    }
    let (mut name, mut after) = word(rest)?;
    while ["if", "not", "exists", "mut", "fn", "unsafe"]
        .iter()
        .any(|small| small.eq_ignore_ascii_case(name))
    {
        (name, after) = word(after)?;
    }
    Some(name)
}

/// The next word, and what comes after it. `None` when something else comes first.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_of_many_languages_are_seen() {
        for (line, name) in [
            ("pub(crate) async fn open_index(home: &Home) {", Some("open_index")),
            ("    pub const fn name(self) -> &str {", Some("name")),
            ("export default class Basket extends Base {", Some("Basket")),
            ("def retry(times):", Some("retry")),
            ("func (s *Store) Commit(ctx Context) error {", Some("Commit")),
            ("CREATE TABLE IF NOT EXISTS turns (", Some("turns")),
            ("#define MAX_BYTES 12", Some("MAX_BYTES")),
            ("macro_rules! named_enum {", Some("named_enum")),
            ("## The log is the session", Some("The log is the session")),
            ("let turn = find();", None),
            ("return fn_name(x)", None),
            ("// fn not_this()", None),
            ("", None),
        ] {
            assert_eq!(defined_name(line), name, "{line}");
        }
    }

    #[test]
    fn a_name_is_what_is_asked_for_when_all_of_it_is() {
        let question = Question::of("where is the index job", &[]);

        assert_eq!(likeness("IndexJob", &question), 1.0);
        assert_eq!(likeness("Index", &question), 0.5);
        assert_eq!(likeness("Turn", &question), 0.0);
    }
}
