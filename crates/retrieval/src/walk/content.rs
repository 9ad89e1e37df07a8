//! Whether a file's content may be indexed.

use memchr::memmem;

use super::Skipped;

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
    if has_private_key(&text) {
        return Err(Skipped::Secret);
    }
    Ok(Content { text })
}

/// A key itself, as a file or in a string; source that only names the header is no secret.
fn has_private_key(text: &str) -> bool {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "PRIVATE KEY-----";
    /// A line of a key has 64; what is shorter may be anything.
    const KEY_RUN: usize = 40;
    const LOOKED_AT_BYTES: usize = 400;
    memmem::find_iter(text.as_bytes(), BEGIN).any(|at| {
        let after = &text.as_bytes()[at + BEGIN.len()..];
        let title =
            after.iter().take(40).position(|byte| *byte == b'\n').unwrap_or(after.len().min(40));
        let Some(end) = memmem::find(&after[..title.min(after.len())], END.as_bytes()) else {
            return false;
        };
        let body = &after[end + END.len()..];
        let body = &body[..body.len().min(LOOKED_AT_BYTES)];
        let is_key_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
        body.split(|byte| !is_key_byte(byte)).any(|run| run.len() >= KEY_RUN)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_key_is_a_secret_wherever_it_stands() {
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7";
        let header = ["-----BEGIN RSA ", "PRIVATE KEY-----"].concat();
        let secret = |text: String| check(text.into_bytes()) == Err(Skipped::Secret);

        assert!(secret(format!("{header}\n{line}\n")));
        assert!(secret(format!("key: |\n  {header}\n  {line}\n")));
        assert!(secret(format!("const KEY = \"{header}\\n{line}\";\n")));
        assert!(!secret(format!("if text.starts_with(\"{header}\") {{\n")));
        assert!(!secret(format!("-----BEGIN CERTIFICATE-----\n{line}\n")));
    }

    #[test]
    fn only_text_is_content() {
        assert_eq!(check(b"a\0b".to_vec()), Err(Skipped::Binary));
        assert_eq!(check(vec![0xff, b'a']), Err(Skipped::NotUtf8));
        assert_eq!(check(Vec::new()), Ok(Content { text: String::new() }));
    }
}
