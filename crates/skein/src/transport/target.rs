//! The path and query of a request, with everything in its place encoded.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What RFC 3986 leaves as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    text: String,
    has_query: bool,
}

impl Target {
    /// Path segments; whatever is in them stays in them.
    pub(crate) fn new(segments: &[&str]) -> Self {
        let encoded = segments.iter().map(|segment| utf8_percent_encode(segment, ENCODED));
        let text = encoded.map(|segment| format!("/{segment}")).collect();
        Self { text, has_query: false }
    }

    /// Adds a query parameter if there is a value.
    pub(crate) fn query(mut self, name: &str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            let value = value.to_string();
            let divider = if self.has_query { '&' } else { '?' };
            let value = utf8_percent_encode(&value, ENCODED);
            self.text.push_str(&format!("{divider}{name}={value}"));
            self.has_query = true;
        }
        self
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_value_can_leave_its_place() {
        let target = Target::new(&["api", "sessions", "../x?y"])
            .query("q", Some("a&b=c d"))
            .query("agent", None::<&str>)
            .query("limit", Some(5));

        assert_eq!(target.to_string(), "/api/sessions/..%2Fx%3Fy?q=a%26b%3Dc%20d&limit=5");
    }
}
