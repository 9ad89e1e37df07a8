//! Texts that look like keys and passwords of the kinds that people commit by mistake.

use memchr::memmem;

/// Whether one of them is in the text. Examples from documentation are none.
pub(super) fn has_secret(text: &str) -> bool {
    has_private_key(text) || TOKENS.iter().any(|token| token.is_in(text)) || has_aws_secret(text)
}

/// A token that begins with a word of its own.
struct Token {
    prefix: &'static str,
    /// How many characters follow, at least.
    length: usize,
    /// Which ones beside digits and letters.
    others: &'static [u8],
    /// Whether letters are capitals.
    is_upper: bool,
}

const fn token(prefix: &'static str, length: usize, others: &'static [u8]) -> Token {
    Token { prefix, length, others, is_upper: false }
}

const TOKENS: &[Token] = &[
    Token { prefix: "AKIA", length: 16, others: b"", is_upper: true },
    token("ghp_", 36, b""),
    token("gho_", 36, b""),
    token("ghu_", 36, b""),
    token("ghs_", 36, b""),
    token("ghr_", 36, b""),
    token("github_pat_", 60, b"_"),
    token("xoxb-", 24, b"-"),
    token("xoxa-", 24, b"-"),
    token("xoxp-", 24, b"-"),
    token("xoxr-", 24, b"-"),
    token("xoxs-", 24, b"-"),
];

impl Token {
    fn is_in(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        memmem::find_iter(bytes, self.prefix).any(|at| {
            let is_begun = at == 0 || !is_word_byte(bytes[at - 1]);
            let run = run(&bytes[at + self.prefix.len()..], |byte| self.may_have(byte));
            is_begun && self.is_long_enough(run) && !is_example(run)
        })
    }

    fn may_have(&self, byte: u8) -> bool {
        let is_letter =
            if self.is_upper { byte.is_ascii_uppercase() } else { byte.is_ascii_alphabetic() };
        is_letter || byte.is_ascii_digit() || self.others.contains(&byte)
    }

    /// What has exactly one length is something else when it is longer.
    fn is_long_enough(&self, run: &[u8]) -> bool {
        if self.is_upper { run.len() == self.length } else { run.len() >= self.length }
    }
}

/// `aws_secret_access_key = "…"`, however it is assigned.
fn has_aws_secret(text: &str) -> bool {
    const LENGTH: usize = 40;
    const BETWEEN: &[u8] = b" \t\"'=:>";
    let bytes = text.as_bytes();
    ["aws_secret_access_key", "AWS_SECRET_ACCESS_KEY"].iter().any(|name| {
        memmem::find_iter(bytes, name).any(|at| {
            let after = &bytes[at + name.len()..];
            let assigned = &after[run(after, |byte| BETWEEN.contains(&byte)).len()..];
            let value = run(assigned, |byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte));
            assigned.len() < after.len() && value.len() == LENGTH && !is_example(value)
        })
    })
}

/// A key itself, as a file or in a string; source that only names the header is no secret.
fn has_private_key(text: &str) -> bool {
    const BEGIN: &str = "-----BEGIN ";
    const TITLES: [&str; 2] = ["PRIVATE KEY-----", "PRIVATE KEY BLOCK-----"];
    /// A line of a key has 64; what is shorter may be anything.
    const KEY_RUN: usize = 40;
    const LOOKED_AT_BYTES: usize = 400;
    memmem::find_iter(text.as_bytes(), BEGIN).any(|at| {
        let after = &text.as_bytes()[at + BEGIN.len()..];
        let title = run(&after[..after.len().min(48)], |byte| byte != b'\n');
        let ends =
            TITLES.iter().filter_map(|end| Some(memmem::find(title, end.as_bytes())? + end.len()));
        let Some(end) = ends.min() else { return false };
        let body = &after[end..];
        let body = &body[..body.len().min(LOOKED_AT_BYTES)];
        let is_key_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
        body.split(|byte| !is_key_byte(byte)).any(|run| run.len() >= KEY_RUN)
    })
}

/// `AKIAIOSFODNN7EXAMPLE`, `ghp_xxxx…`, `…1234567890…`: what nobody was given. A real one has many characters, and some
/// of them are digits.
fn is_example(run: &[u8]) -> bool {
    const FEW: usize = 8;
    let upper = run.to_ascii_uppercase();
    let is_told = ["EXAMPLE", "1234567890", "0123456789", "ABCDEFGH", "XXXX", "YOUR"];
    let mut seen = [false; 256];
    upper.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    is_told.iter().any(|word| memmem::find(&upper, word.as_bytes()).is_some())
        || seen.iter().filter(|seen| **seen).count() < FEW
        || !upper.iter().any(u8::is_ascii_digit)
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The bytes at the beginning that are all of a kind.
fn run(bytes: &[u8], is_of_it: impl Fn(u8) -> bool) -> &[u8] {
    &bytes[..bytes.iter().position(|byte| !is_of_it(*byte)).unwrap_or(bytes.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In pieces, so that this file is none.
    fn joined(pieces: &[&str]) -> String {
        pieces.concat()
    }

    #[test]
    fn a_private_key_is_a_secret_wherever_it_stands() {
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7";
        let header = joined(&["-----BEGIN RSA ", "PRIVATE KEY-----"]);
        let block = joined(&["-----BEGIN PGP ", "PRIVATE KEY BLOCK-----"]);

        assert!(has_secret(&format!("{header}\n{line}\n")));
        assert!(has_secret(&format!("key: |\n  {header}\n  {line}\n")));
        assert!(has_secret(&format!("const KEY = \"{header}\\n{line}\";\n")));
        assert!(has_secret(&format!("{block}\n\n{line}\n")));
        assert!(!has_secret(&format!("if text.starts_with(\"{header}\") {{\n")));
        assert!(!has_secret(&format!("-----BEGIN CERTIFICATE-----\n{line}\n")));
    }

    #[test]
    fn tokens_are_secrets() {
        let body = "h4Kd81mQz0Rt7Yw2Lp9Vx3Nc6Bj5Gs8Fa1Eu";
        for secret in [
            joined(&["id = \"AK", "IAZ7Q2M4XW9RT3KP6D\""]),
            joined(&[
                "[default]\naws_secret_",
                "access_key = k9Fj2/Lq8+Rz4Tn7Wb1Xc6Vy3Ms5Hd0Gp2QaEuIo",
            ]),
            joined(&[
                "export AWS_SECRET_",
                "ACCESS_KEY='k9Fj2/Lq8+Rz4Tn7Wb1Xc6Vy3Ms5Hd0Gp2QaEuIo'",
            ]),
            joined(&["token: gh", "p_", body]),
            joined(&["https://gh", "s_", body, "@github.com"]),
            joined(&["github_", "pat_11ABCDE2Y0", body, "_", body]),
            joined(&["xo", "xb-281736450192-7364501928374-", "kR4mZ8tW2qY6pL1v"]),
        ] {
            assert!(has_secret(&secret), "{secret}");
        }
    }

    #[test]
    fn what_only_looks_like_a_token_is_none() {
        for text in [
            "AKIAIOSFODNN7EXAMPLE",
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "aws_secret_access_key = os.environ['AWS_SECRET_ACCESS_KEY']",
            "AKIAXXXXXXXXXXXXXXXX and AKIA[0-9A-Z]{16} and AKIA1234567890ABCDEF",
            "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, ghp_<your token>",
            "graph_ghp_helper_function_with_a_name_that_goes_on_and_on",
            "github_pat_YOUR_TOKEN_HERE xoxb-your-token-goes-right-here xoxb-...",
            "WAKIAZ7Q2M4XW9RT3KP6D",
        ] {
            assert!(!has_secret(text), "{text}");
        }
    }
}
