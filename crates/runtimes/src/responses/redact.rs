//! Keeps a provider's key out of everything that is kept or shown.

use bytes::Bytes;
use memchr::memmem;
use secrecy::{ExposeSecret, SecretString};

const INSTEAD: &str = "[key]";

/// Shorter keys are placeholders such as `ollama`, and part of ordinary answers.
const MIN_STREAM_BYTES: usize = 16;

/// The text without the key.
pub(super) fn without_key(key: Option<&SecretString>, text: &str) -> String {
    match key.map(ExposeSecret::expose_secret) {
        Some(key) if !key.is_empty() => text.replace(key, INSTEAD),
        _ => text.to_owned(),
    }
}

/// A key that is looked for in what streams.
#[derive(Debug, Clone, Default)]
pub(super) struct StreamKey(Option<SecretString>);

impl StreamKey {
    pub(super) fn new(key: Option<&SecretString>) -> Self {
        Self(key.filter(|key| key.expose_secret().len() >= MIN_STREAM_BYTES).cloned())
    }

    /// How many bytes at the end of the text are the beginning of the key.
    pub(super) fn begun_at_end(&self, text: &[u8]) -> usize {
        let key = self.0.as_ref().map(ExposeSecret::expose_secret);
        key.map_or(0, |key| beginning_at_end(key.as_bytes(), text))
    }

    pub(super) fn taken_out(&self, text: String) -> String {
        match self.0.as_ref().map(ExposeSecret::expose_secret) {
            Some(key) if text.contains(key) => text.replace(key, INSTEAD),
            Some(_) | None => text,
        }
    }
}

/// Takes the key out of a stream of bytes, also where chunks cut it. Bytes without it pass unchanged.
#[derive(Default)]
pub(super) struct Redactor {
    key: StreamKey,
    /// The end of the last chunk, if the key may begin there.
    held: Vec<u8>,
}

impl Redactor {
    pub(super) fn new(key: Option<&SecretString>) -> Self {
        Self { key: StreamKey::new(key), held: Vec::new() }
    }

    pub(super) fn feed(&mut self, chunk: Bytes) -> Bytes {
        let Some(key) = &self.key.0 else { return chunk };
        let key = key.expose_secret().as_bytes();
        let chunk = if self.held.is_empty() {
            chunk
        } else {
            self.held.extend_from_slice(&chunk);
            Bytes::from(std::mem::take(&mut self.held))
        };
        let mut chunk = without(key, chunk);
        let held = beginning_at_end(key, &chunk);
        self.held = chunk.split_off(chunk.len() - held).to_vec();
        chunk
    }

    /// What was held back, once the stream has ended.
    pub(super) fn finish(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.held))
    }
}

fn without(key: &[u8], bytes: Bytes) -> Bytes {
    let finder = memmem::Finder::new(key);
    let find = |bytes: &[u8]| finder.find(bytes);
    let Some(mut at) = find(&bytes) else { return bytes };
    let (mut rest, mut clean) = (&bytes[..], Vec::with_capacity(bytes.len()));
    loop {
        clean.extend_from_slice(&rest[..at]);
        clean.extend_from_slice(INSTEAD.as_bytes());
        rest = &rest[at + key.len()..];
        match find(rest) {
            Some(next) => at = next,
            None => break,
        }
    }
    clean.extend_from_slice(rest);
    Bytes::from(clean)
}

/// How many bytes at the end of the chunk are the beginning of the key.
fn beginning_at_end(key: &[u8], chunk: &[u8]) -> usize {
    let longest = chunk.len().min(key.len() - 1);
    (1..=longest).rev().find(|&length| chunk.ends_with(&key[..length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-sk-0123456789abcdef";

    fn redacted(text: &str, chunk_bytes: usize) -> String {
        let mut redactor = Redactor::new(Some(&SecretString::from(KEY)));
        let mut seen = Vec::new();
        for chunk in text.as_bytes().chunks(chunk_bytes) {
            seen.extend_from_slice(&redactor.feed(Bytes::copy_from_slice(chunk)));
        }
        seen.extend_from_slice(&redactor.finish());
        String::from_utf8(seen).unwrap()
    }

    #[test]
    fn a_key_disappears_wherever_it_is_cut() {
        let text = format!("a {KEY} b{KEY}{KEY} sk-sk-sk-0 {KEY}");

        for chunk_bytes in 1..=text.len() {
            assert_eq!(redacted(&text, chunk_bytes), "a [key] b[key][key] sk-sk-sk-0 [key]");
        }
    }

    #[test]
    fn bytes_without_the_key_pass_unchanged() {
        let text = "sk-sk-0123456789abcde is not the key, nor is sk-";

        assert!((1..=text.len()).all(|chunk_bytes| redacted(text, chunk_bytes) == text));
    }

    #[test]
    fn a_placeholder_is_kept_out_of_messages_only() {
        let key = SecretString::from("ollama");

        assert_eq!(without_key(Some(&key), "bad key ollama"), "bad key [key]");
        assert_eq!(Redactor::new(Some(&key)).feed(Bytes::from_static(b"ollama")), "ollama");
    }
}
