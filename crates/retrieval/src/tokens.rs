//! The words of a text, as they are indexed and looked for.
//!
//! An identifier gives its parts and, when it has several, itself in one piece, so that `max_bytes`, `maxBytes` and
//! "max bytes" find each other and an exact name counts most. Parts lose their endings: "parsing" finds `Parser`.

/// Longer words are data, such as keys and hashes in text form.
const MAX_WORD_BYTES: usize = 96;
const MAX_PARTS: usize = 12;

/// Calls `found` for every token in the order of the text.
pub fn tokens(text: &str, mut found: impl FnMut(&str)) {
    let mut buffer = String::new();
    for word in text.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
        if word.is_empty() || word.len() > MAX_WORD_BYTES {
            continue;
        }
        if word.is_ascii() {
            ascii_word(word, &mut buffer, &mut found);
        } else {
            other_word(word, &mut found);
        }
    }
}

/// The tokens as a text of their own, for an index that splits at spaces.
pub fn token_text(text: &str) -> String {
    let mut joined = String::with_capacity(text.len() + text.len() / 2);
    tokens(text, |token| {
        joined.push_str(token);
        joined.push(' ');
    });
    joined
}

/// A name in the one form in which names are compared.
pub fn folded(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn ascii_word(word: &str, buffer: &mut String, found: &mut impl FnMut(&str)) {
    buffer.clear();
    let bytes = word.as_bytes();
    let (mut start, mut parts) = (0, 0);
    for end in 1..=bytes.len() {
        if end < bytes.len() && !is_boundary(bytes, end) {
            continue;
        }
        let part = word[start..end].trim_matches('_');
        start = end;
        if part.is_empty() {
            continue;
        }
        parts += 1;
        let from = buffer.len();
        buffer.push_str(part);
        buffer[from..].make_ascii_lowercase();
        if parts <= MAX_PARTS {
            let mut stem = [0; MAX_WORD_BYTES];
            found(stemmed(&buffer[from..], &mut stem));
        }
    }
    if parts > 1 {
        found(buffer);
    }
}

/// Between `_` and anything, a digit and a letter, `aB`, and before the last capital of `HTTPServer`.
fn is_boundary(bytes: &[u8], at: usize) -> bool {
    let (before, here) = (bytes[at - 1], bytes[at]);
    if before == b'_' || here == b'_' {
        return true;
    }
    if before.is_ascii_digit() != here.is_ascii_digit() {
        return true;
    }
    if !here.is_ascii_uppercase() {
        return false;
    }
    let next_is_lower = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
    !before.is_ascii_uppercase() || next_is_lower
}

/// Scripts without spaces between words are found by pairs of characters.
fn other_word(word: &str, found: &mut impl FnMut(&str)) {
    let lower = word.to_lowercase();
    found(&lower);
    if !lower.chars().any(is_spaceless) {
        return;
    }
    let places: Vec<usize> = lower.char_indices().map(|(at, _)| at).chain([lower.len()]).collect();
    for pair in places.windows(3).take(MAX_WORD_BYTES) {
        found(&lower[pair[0]..pair[2]]);
    }
}

const fn is_spaceless(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0eff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{20000}'..='\u{3ffff}')
}

/// Takes the usual endings from an English word. It need not be right, only the same for words that belong together.
fn stemmed<'a>(word: &'a str, buffer: &'a mut [u8; MAX_WORD_BYTES]) -> &'a str {
    let bytes = word.as_bytes();
    if bytes.len() <= 3 || bytes.len() > MAX_WORD_BYTES || !bytes[0].is_ascii_alphabetic() {
        return word;
    }
    let plural = singular(bytes);
    buffer[..bytes.len()].copy_from_slice(bytes);
    let mut length = plural.0;
    if let Some(last) = plural.1 {
        buffer[length - 1] = last;
    }
    length = without_ending(&buffer[..length]);
    std::str::from_utf8(&buffer[..length]).unwrap_or(word)
}

/// The length of the singular, and its last letter if it is another.
fn singular(word: &[u8]) -> (usize, Option<u8>) {
    let length = word.len();
    if word.ends_with(b"ies") && length > 4 {
        return (length - 2, Some(b'y'));
    }
    let is_es =
        ["xes", "ches", "shes", "sses", "zes"].iter().any(|end| word.ends_with(end.as_bytes()));
    if is_es {
        return (length - 2, None);
    }
    let stays = ["ss", "us", "is"].iter().any(|end| word.ends_with(end.as_bytes()));
    (if word.ends_with(b"s") && !stays { length - 1 } else { length }, None)
}

fn without_ending(word: &[u8]) -> usize {
    const ENDINGS: &[(&[u8], usize)] = &[
        (b"ization", 7),
        (b"ation", 3),
        (b"tion", 3),
        (b"sion", 3),
        (b"ing", 3),
        (b"ed", 2),
        (b"er", 2),
        (b"or", 2),
    ];
    let length = word.len();
    for (ending, cut) in ENDINGS {
        let rest = length.saturating_sub(*cut);
        if word.ends_with(ending) && rest >= 3 && word[..rest].iter().any(|c| b"aeiouy".contains(c))
        {
            return undoubled(&word[..rest]);
        }
    }
    if length > 4 && word.ends_with(b"e") { length - 1 } else { length }
}

/// "running" without "ing" is "run".
fn undoubled(word: &[u8]) -> usize {
    let length = word.len();
    let is_double =
        length > 3 && word[length - 1] == word[length - 2] && !b"lsze".contains(&word[length - 1]);
    let length = if is_double { length - 1 } else { length };
    if length > 4 && word[length - 1] == b'e' { length - 1 } else { length }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        tokens(text, |token| found.push(token.to_owned()));
        found
    }

    #[test]
    fn identifiers_give_their_parts_and_themselves() {
        assert_eq!(all("max_stdout"), ["max", "stdout", "maxstdout"]);
        assert_eq!(all("maxStdout"), ["max", "stdout", "maxstdout"]);
        assert_eq!(all("HTTPServer2"), ["http", "serv", "2", "httpserver2"]);
        assert_eq!(all("__init__"), ["init"]);
        assert_eq!(all("a::b(c)"), ["a", "b", "c"]);
        assert_eq!(all("_ __ \"*(^~"), [] as [&str; 0]);
    }

    #[test]
    fn words_that_belong_together_are_one_token() {
        for words in [
            "parse parses parsed parsing parser parsers",
            "connect connects connecting connection connections connected connector",
            "generate generation generator generating",
            "query queries",
            "run running runs runner",
            "handle handler handling handled",
            "box boxes",
        ] {
            let found = all(words);
            assert!(found.iter().all(|token| *token == found[0]), "{found:?}");
        }
    }

    #[test]
    fn other_scripts_are_found_too() {
        assert_eq!(all("Größe"), ["größe"]);
        assert_eq!(all("文件名"), ["文件名", "文件", "件名"]);
    }

    #[test]
    fn a_name_is_compared_without_its_spelling() {
        assert_eq!(folded("Max_Stdout"), folded("maxStdout"));
    }
}
