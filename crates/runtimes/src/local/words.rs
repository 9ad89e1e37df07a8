//! Words as they are compared: identifiers in their parts, without the usual endings.

/// Words that carry a question and not its subject.
const STOP_WORDS: &str = "\
    a about again all also am an and any anything are aren as at be been before being both but by can class code \
    could declared define defined defines definition did do does doesn done each else every exactly explain file \
    files find for from function functions get gets give given happen happens had has have here how i if implement \
    implementation implemented in into is isn it its itself just kind let like line lines list locate located made \
    make makes me method methods more much my no not of off on one only or other our out over place places please \
    say says see self should show so some something struct such take takes tell than that the their them then there \
    these they thing things this those through to too under up us use used uses using very via was we were what \
    when where which while who whose why will with work works would you your";

/// A word that tells what is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    /// In lower case; of a name, a part.
    pub(super) word: String,
    pub(super) stem: String,
    /// As the person wrote it, in one piece.
    pub(super) written: String,
}

/// Every telling word of a text once, in order.
pub(super) fn telling(text: &str) -> Vec<Term> {
    let mut found: Vec<Term> = Vec::new();
    for word in raw_words(text) {
        if is_stop_word(word) {
            continue;
        }
        for part in parts(word) {
            let stem = stem(&part);
            let is_worth_it = !is_stop_word(&part) || parts(word).len() > 1;
            if is_worth_it && !found.iter().any(|known| known.stem == stem) {
                found.push(Term { word: part, stem, written: word.to_owned() });
            }
        }
    }
    found
}

/// The stems of all words, for comparison.
pub(super) fn stems(text: &str) -> Vec<String> {
    raw_words(text).flat_map(parts).map(|part| stem(&part)).collect()
}

/// Lower-case words as they stand, small ones too.
pub(super) fn plain(text: &str) -> Vec<String> {
    raw_words(text).map(str::to_lowercase).collect()
}

/// Whether a word after the first is spelled as names are.
pub(super) fn has_name(text: &str) -> bool {
    raw_words(text).skip(1).any(|word| word.contains('_') || word.contains(char::is_uppercase))
}

fn raw_words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.filter(|word| word.chars().any(char::is_alphanumeric))
}

fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.split_ascii_whitespace().any(|stop| stop.eq_ignore_ascii_case(word))
        || word.chars().count() == 1 && !word.chars().all(char::is_numeric)
}

/// `maxBytes`, `max_bytes` and `MAX_BYTES` are "max" and "bytes".
fn parts(word: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let characters: Vec<char> = word.chars().collect();
    for (at, &here) in characters.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| characters[at]);
        let next_is_lower = characters.get(at + 1).is_some_and(|next| next.is_lowercase());
        let is_new = before.is_some_and(|before| {
            before.is_numeric() != here.is_numeric()
                || here.is_uppercase() && (!before.is_uppercase() || next_is_lower)
        });
        if here == '_' || is_new {
            parts.push(std::mem::take(&mut part));
        }
        if here != '_' {
            part.extend(here.to_lowercase());
        }
    }
    parts.push(part);
    parts.retain(|part| !part.is_empty());
    parts
}

/// It need not be right, only the same for words that belong together.
fn stem(word: &str) -> String {
    if word.len() <= 3 || !word.is_ascii() {
        return word.to_owned();
    }
    let mut stem = singular(word);
    let endings = [("ization", 7), ("ation", 3), ("tion", 3), ("sion", 3)];
    let short = [("ing", 3), ("ed", 2), ("er", 2), ("or", 2)];
    for (ending, cut) in endings.into_iter().chain(short) {
        let rest = stem.len().saturating_sub(cut);
        if stem.ends_with(ending)
            && rest >= 3
            && stem[..rest].contains(['a', 'e', 'i', 'o', 'u', 'y'])
        {
            stem.truncate(rest);
            undouble(&mut stem);
            break;
        }
    }
    if stem.len() > 4 && stem.ends_with('e') {
        stem.pop();
    }
    stem
}

fn singular(word: &str) -> String {
    if let Some(start) = word.strip_suffix("ies").filter(|start| start.len() > 1) {
        return format!("{start}y");
    }
    if ["xes", "ches", "shes", "sses", "zes"].iter().any(|end| word.ends_with(end)) {
        return word[..word.len() - 2].to_owned();
    }
    let stays = ["ss", "us", "is"].iter().any(|end| word.ends_with(end));
    word.strip_suffix('s').filter(|_| !stays).unwrap_or(word).to_owned()
}

fn undouble(stem: &mut String) {
    let bytes = stem.as_bytes();
    let length = bytes.len();
    if length > 3 && bytes[length - 1] == bytes[length - 2] && !b"lsze".contains(&bytes[length - 1])
    {
        stem.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn telling_words(text: &str) -> Vec<String> {
        telling(text).into_iter().map(|term| term.word).collect()
    }

    #[test]
    fn a_question_tells_its_subject() {
        assert_eq!(telling_words("Where are threads made slowly?"), ["threads", "slowly"]);
        assert_eq!(telling_words("what is `IndexJob`"), ["index", "job"]);
        assert_eq!(telling_words("what is this?"), [] as [&str; 0]);
    }

    #[test]
    fn words_that_belong_together_have_one_stem() {
        for words in
            ["parse parser parsing parsed", "connections connect", "query queries", "runs running"]
        {
            let found = stems(words);
            assert!(found.iter().all(|stem| *stem == found[0]), "{found:?}");
        }
        assert_eq!(stems("MAX_HTTPBytes2"), ["max", "http", "byte", "2"]);
    }
}
