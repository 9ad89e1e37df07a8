//! Whether a file's content may be indexed.

use super::{Skipped, secrets::has_secret};

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    pub text: String,
}

/// The text of a file, or why it is left out.
pub fn check(bytes: Vec<u8>) -> Result<Content, Skipped> {
    if memchr::memchr(0, &bytes).is_some() {
        return Err(Skipped::Binary);
    }
    let text = String::from_utf8(bytes).map_err(|_| Skipped::NotUtf8)?;
    if has_secret(&text) {
        return Err(Skipped::Secret);
    }
    Ok(Content { text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_a_secret_in_it_is_left_out() {
        let token = ["token = gh", "p_h4Kd81mQz0Rt7Yw2Lp9Vx3Nc6Bj5Gs8Fa1Eu\n"].concat();

        assert_eq!(check(token.into_bytes()), Err(Skipped::Secret));
    }

    #[test]
    fn only_text_is_content() {
        assert_eq!(check(b"a\0b".to_vec()), Err(Skipped::Binary));
        assert_eq!(check(vec![0xff, b'a']), Err(Skipped::NotUtf8));
        assert_eq!(check(Vec::new()), Ok(Content { text: String::new() }));
    }
}
