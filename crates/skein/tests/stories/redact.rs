//! Replaces what differs from run to run, so that whole values can be compared.

use serde_json::Value;

/// Known ids become their names, other ids `ID`, and times `TIME`.
pub(crate) fn redact(value: &Value, names: &[(&str, &str)]) -> Value {
    match value {
        Value::String(text) => Value::String(redact_text(text, names)),
        Value::Array(items) => items.iter().map(|item| redact(item, names)).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| (name.clone(), redact(member, names)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn redact_text(text: &str, names: &[(&str, &str)]) -> String {
    if is_time(text) {
        return "TIME".to_owned();
    }
    let mut redacted = text.to_owned();
    for (id, name) in names {
        redacted = redacted.replace(id, name);
    }
    let mut start = 0;
    while let Some(candidate) = redacted.get(start..start + ID_LENGTH) {
        if is_id(candidate) {
            redacted.replace_range(start..start + ID_LENGTH, "ID");
        }
        start += 1;
        while !redacted.is_char_boundary(start) {
            start += 1;
        }
    }
    redacted
}

const ID_LENGTH: usize = 36;

fn is_id(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    })
}

/// `2026-11-15T18:10:34.499Z`, exactly.
fn is_time(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape == "0000-00-00T00:00:00.000Z"
}
