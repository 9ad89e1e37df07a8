//! The short form of a text that a turn shows.

/// Unicode scalar values, so that no character is ever split.
pub const SUMMARY_CHARS: usize = 1024;

/// The summary of a text that comes in pieces.
#[derive(Debug, Default)]
pub struct Summary {
    text: String,
    chars: usize,
}

impl Summary {
    pub fn add(&mut self, text: &str) {
        let wanted = text.chars().take(SUMMARY_CHARS - self.chars);
        for character in wanted {
            self.text.push(character);
            self.chars += 1;
        }
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

/// The first 1,024 characters.
pub fn summarize(text: &str) -> String {
    match text.char_indices().nth(SUMMARY_CHARS) {
        Some((end, _)) => text[..end].to_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_cut_after_1024_characters_and_never_inside_one() {
        let exact = "é".repeat(SUMMARY_CHARS);
        let longer = format!("{exact}😀");

        assert_eq!(summarize(&exact), exact);
        assert_eq!(summarize(&longer), exact);
        assert_eq!(summarize(""), "");
        assert_eq!(summarize(&"😀".repeat(2000)).chars().count(), SUMMARY_CHARS);
    }

    #[test]
    fn a_text_in_pieces_has_the_summary_of_the_whole() {
        let text = "é😀x".repeat(700);

        for piece_chars in [1, 7, 1024, 5000] {
            let mut summary = Summary::default();
            let chars: Vec<char> = text.chars().collect();
            for piece in chars.chunks(piece_chars) {
                summary.add(&piece.iter().collect::<String>());
            }
            assert_eq!(summary.into_text(), summarize(&text), "{piece_chars}");
        }
    }
}
