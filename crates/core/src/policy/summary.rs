//! The short form of a text that a turn shows.

/// Unicode scalar values, so that no character is ever split.
pub const SUMMARY_CHARS: usize = 1024;

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
}
