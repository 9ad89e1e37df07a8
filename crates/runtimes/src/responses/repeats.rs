//! Leaves texts out of JSON that comes in pieces.
//!
//! At the end of a response the protocol repeats all of its text, four times. What was given as deltas need not be held again.

/// Shorter texts are not worth the trouble.
const SHORT_BYTES: usize = 1024;

/// The fields that repeat what deltas have said.
const FIELDS: [&[u8]; 2] = [b"text", b"refusal"];

/// Copies JSON, and empties the strings of [`FIELDS`] that are longer than [`SHORT_BYTES`].
#[derive(Debug, Default)]
pub(super) struct WithoutTexts {
    state: State,
    /// Whether the last string was the name of such a field.
    is_named: bool,
    /// Whether the value that follows is one of such a field.
    is_value: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Between,
    /// In a string whose content begins here in the copy.
    Within {
        start: usize,
    },
    /// Behind a backslash.
    Escaped {
        start: usize,
    },
    /// In a string that is left out.
    Skipping,
    SkippingEscaped,
}

impl WithoutTexts {
    pub(super) fn copy(&mut self, mut json: &[u8], copy: &mut Vec<u8>) {
        while let Some(&byte) = json.first() {
            let taken = match self.state {
                State::Between => self.between(byte, copy),
                State::Within { start } => self.within(json, start, copy),
                State::Escaped { start } => {
                    copy.push(byte);
                    self.state = State::Within { start };
                    1
                }
                State::Skipping => self.skip(json, copy),
                State::SkippingEscaped => {
                    self.state = State::Skipping;
                    1
                }
            };
            json = &json[taken..];
        }
    }

    fn between(&mut self, byte: u8, copy: &mut Vec<u8>) -> usize {
        copy.push(byte);
        match byte {
            b'"' => self.state = State::Within { start: copy.len() },
            b':' => (self.is_value, self.is_named) = (self.is_named, false),
            b',' | b'{' | b'[' | b'}' | b']' => (self.is_value, self.is_named) = (false, false),
            _ => {}
        }
        1
    }

    /// Up to the next byte that means something, or to the end of what is there.
    fn within(&mut self, json: &[u8], start: usize, copy: &mut Vec<u8>) -> usize {
        let found = memchr::memchr2(b'"', b'\\', json);
        let taken = found.map_or(json.len(), |at| at + 1);
        copy.extend_from_slice(&json[..taken]);
        match found.map(|at| json[at]) {
            Some(b'"') => {
                self.is_named = FIELDS.contains(&&copy[start..copy.len() - 1]);
                self.state = State::Between;
            }
            Some(_) => self.state = State::Escaped { start },
            None => {}
        }
        if self.is_value && copy.len() - start > SHORT_BYTES {
            let is_over = self.state == State::Between;
            let is_escaped = matches!(self.state, State::Escaped { .. });
            copy.truncate(start);
            match (is_over, is_escaped) {
                (true, _) => copy.push(b'"'),
                (false, true) => self.state = State::SkippingEscaped,
                (false, false) => self.state = State::Skipping,
            }
        }
        taken
    }

    fn skip(&mut self, json: &[u8], copy: &mut Vec<u8>) -> usize {
        let Some(at) = memchr::memchr2(b'"', b'\\', json) else { return json.len() };
        match json[at] {
            b'"' => {
                copy.push(b'"');
                self.state = State::Between;
            }
            _ => self.state = State::SkippingEscaped,
        }
        at + 1
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn copied(json: &str, piece_bytes: usize) -> (String, usize) {
        let (mut without, mut copy, mut most) = (WithoutTexts::default(), Vec::new(), 0);
        for piece in json.as_bytes().chunks(piece_bytes) {
            without.copy(piece, &mut copy);
            most = most.max(copy.len());
        }
        (String::from_utf8(copy).unwrap(), most)
    }

    fn event(text: &str) -> Value {
        json!({
            "type": "response.completed", "text": "short", "delta": text, "content": ["text", text],
            "response": {"id": "resp_1", "output": [
                {"type": "message", "content": [{"type": "output_text", "text": text}, {"refusal": text}]},
                {"type": "function_call", "arguments": text},
            ], "usage": {"input_tokens": 1}},
        })
    }

    #[test]
    fn long_texts_are_emptied_and_nothing_else_is_touched_however_json_is_cut() {
        let long = "a \"quoted\" \\ é😀\n{\"text\":[1,2]},".repeat(80);
        let mut expected = event(&long);
        let content = &mut expected["response"]["output"][0]["content"];
        content[0]["text"] = json!("");
        content[1]["refusal"] = json!("");

        for json in [event(&long).to_string(), serde_json::to_string_pretty(&event(&long)).unwrap()]
        {
            for piece_bytes in [1, 2, 3, 7, 1000, json.len()] {
                let (copy, _) = copied(&json, piece_bytes);
                assert_eq!(serde_json::from_str::<Value>(&copy).unwrap(), expected);
            }
        }
    }

    #[test]
    fn short_texts_pass_unchanged() {
        let json = event("a short \\ \"text\"").to_string();

        assert!((1..=json.len()).all(|piece_bytes| copied(&json, piece_bytes).0 == json));
    }

    #[test]
    fn a_text_is_never_held() {
        let json = json!({"text": "x\\".repeat(4_000_000), "end": true}).to_string();

        let (copy, most) = copied(&json, 8 * 1024);

        assert_eq!(copy, r#"{"text":"","end":true}"#);
        assert!(most < 16 * 1024, "{most} bytes");
    }
}
