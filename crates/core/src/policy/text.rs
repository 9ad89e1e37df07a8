//! What a text from outside must look like before it is kept.

use serde_json::{Map, Value};

use crate::Error;

/// No database and no agent can be trusted with NUL, so it is refused at the door.
pub fn check_text(field: &'static str, text: &str, max_bytes: usize) -> Result<(), Error> {
    if text.contains('\0') {
        return Err(Error::Invalid { field, reason: "must not contain NUL characters".to_owned() });
    }
    if text.len() > max_bytes {
        return Err(Error::TooLarge {
            what: field,
            size: text.len() as u64,
            limit: max_bytes as u64,
        });
    }
    Ok(())
}

/// What an agent says comes as it is, so NUL gives way to the character for what cannot be shown.
pub fn without_nul(text: String) -> String {
    match text.contains('\0') {
        true => text.replace('\0', "\u{FFFD}"),
        false => text,
    }
}

/// Paths that a retrieval is confined to: few, and each of them short.
pub fn check_scope(paths: &[String], max_bytes: usize) -> Result<(), Error> {
    const MAX_PATHS: usize = 200;

    if paths.len() > MAX_PATHS {
        let (size, limit) = (paths.len() as u64, MAX_PATHS as u64);
        return Err(Error::TooLarge { what: "scope.paths", size, limit });
    }
    paths.iter().try_for_each(|path| check_text("scope.paths", path, max_bytes))
}

/// As [`check_text`], where a text was given.
pub fn check_optional(
    field: &'static str,
    text: Option<&str>,
    max_bytes: usize,
) -> Result<(), Error> {
    text.map_or(Ok(()), |text| check_text(field, text, max_bytes))
}

/// As [`check_text`], for what has no meaning when it is blank.
pub fn check_filled(field: &'static str, text: &str, max_bytes: usize) -> Result<(), Error> {
    check_text(field, text, max_bytes)?;
    match text.trim().is_empty() {
        true => Err(Error::Invalid { field, reason: "must not be empty".to_owned() }),
        false => Ok(()),
    }
}

/// A provider cannot be asked for a model without a name.
pub fn check_model(model: Option<&str>, max_bytes: usize) -> Result<(), Error> {
    model.map_or(Ok(()), |model| check_filled("model", model, max_bytes))
}

/// An instruction has something to say.
pub fn check_instruction(text: &str, max_bytes: usize) -> Result<(), Error> {
    check_text("instruction", text, max_bytes)?;
    if text.trim().is_empty() { Err(Error::EmptyInstruction) } else { Ok(()) }
}

/// Metadata is JSON of a bounded size without NUL in keys or values.
pub fn check_metadata(metadata: &Map<String, Value>, max_bytes: usize) -> Result<(), Error> {
    let mut size = 0;
    for (key, value) in metadata {
        size += key.len() + value_bytes(value);
        if key.contains('\0') || has_nul(value) {
            let reason = "must not contain NUL characters".to_owned();
            return Err(Error::Invalid { field: "metadata", reason });
        }
    }
    if size > max_bytes {
        return Err(Error::TooLarge {
            what: "metadata",
            size: size as u64,
            limit: max_bytes as u64,
        });
    }
    Ok(())
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(map) => map.iter().any(|(key, value)| key.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_bytes).sum::<usize>() + items.len(),
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + value_bytes(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}
