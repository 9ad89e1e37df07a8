//! Keeps an agent's secrets out of what people are shown.

use std::collections::BTreeMap;

/// Shorter values are flags and numbers; hiding these would garble the text.
const SHORTEST: usize = 8;

/// The values of an agent's variables.
#[derive(Debug, Clone, Default)]
pub(super) struct Redaction(Vec<String>);

impl Redaction {
    pub(super) fn of(env: &BTreeMap<String, String>) -> Self {
        Self(env.values().filter(|value| value.len() >= SHORTEST).cloned().collect())
    }

    pub(super) fn apply(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "[secret]"))
    }
}
