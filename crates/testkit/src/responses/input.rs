//! The items of `input`, checked and read.

use serde_json::{Value, json};

use super::{
    check::{Fields, wrong_type, wrong_value},
    error::ApiError,
};

const ITEM_TYPES: [&str; 4] = ["function_call", "function_call_output", "message", "reasoning"];
const STATUSES: [&str; 3] = ["in_progress", "completed", "incomplete"];

/// Checks `input` and returns it as a list of items; a string is one message of the user.
pub(super) fn items(input: &Value) -> Result<Vec<Value>, ApiError> {
    match input {
        Value::String(text) => {
            let content = json!([{"type": "input_text", "text": text}]);
            Ok(vec![json!({"type": "message", "role": "user", "content": content})])
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check_item(item, &format!("input[{index}]"))?;
            }
            Ok(items.clone())
        }
        other => Err(wrong_type("input", "one of a string or array of input items", other)),
    }
}

/// The last text that a user wrote in these items: the instruction.
pub(super) fn last_user_text<'a>(
    items: impl DoubleEndedIterator<Item = &'a Value>,
) -> Option<&'a str> {
    items.rev().filter(|item| item["role"] == "user").find_map(|item| match &item["content"] {
        Value::String(text) => Some(text.as_str()),
        parts => parts.as_array()?.iter().rev().find_map(|part| part["text"].as_str()),
    })
}

/// Whether the model wrote this item, rather than whoever asks it.
pub(super) fn is_of_the_model(item: &Value) -> bool {
    item["role"] == "assistant" || item["type"] == "function_call" || item["type"] == "reasoning"
}

/// The bytes of text that a model would have to read.
pub(super) fn text_bytes(value: &Value) -> usize {
    match value {
        Value::Array(parts) => parts.iter().map(text_bytes).sum(),
        Value::Object(fields) => ["content", "text", "arguments", "output", "summary", "refusal"]
            .iter()
            .filter_map(|name| fields.get(*name))
            .map(text_bytes)
            .sum(),
        Value::String(text) => text.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn check_item(item: &Value, at: &str) -> Result<(), ApiError> {
    let fields = Fields::of(item, at)?;
    // An item with a role and no type is a message.
    let kind = match fields.string("type")? {
        Some(kind) => kind,
        None if fields.find("role").is_some() => "message",
        None => "",
    };
    match kind {
        "message" => check_message(fields),
        "function_call" => check_call(fields),
        "function_call_output" => check_call_output(fields),
        "reasoning" => check_reasoning(fields),
        other => Err(wrong_value(at, other, &ITEM_TYPES)),
    }
}

fn check_message(fields: Fields<'_>) -> Result<(), ApiError> {
    const ROLES: [&str; 4] = ["assistant", "system", "developer", "user"];

    let role = fields.required_string("role")?;
    fields.one_of("role", &ROLES)?;
    if role == "assistant" {
        fields.only(&["type", "role", "content", "id", "status", "phase"])?;
        fields.string("id")?;
        fields.one_of("phase", &["commentary", "final_answer"])?;
    } else {
        fields.only(&["type", "role", "content", "status"])?;
    }
    fields.one_of("status", &STATUSES)?;
    match fields.required("content")? {
        Value::String(_) => Ok(()),
        Value::Array(parts) => {
            for (index, part) in parts.iter().enumerate() {
                let at = fields.path(&format!("content[{index}]"));
                check_part(Fields::of(part, &at)?, role)?;
            }
            Ok(())
        }
        other => {
            Err(wrong_type(&fields.path("content"), "one of an array of objects or string", other))
        }
    }
}

fn check_part(part: Fields<'_>, role: &str) -> Result<(), ApiError> {
    let kind = part.required_string("type")?;
    match (role, kind) {
        ("assistant", "output_text") => {
            part.only(&["type", "text", "annotations", "logprobs"])?.required_string("text")?;
        }
        ("assistant", "refusal") => {
            part.only(&["type", "refusal"])?.required_string("refusal")?;
        }
        ("assistant", other) => {
            return Err(wrong_value(&part.path("type"), other, &["output_text", "refusal"]));
        }
        (_, "input_text") => {
            part.only(&["type", "text"])?.required_string("text")?;
        }
        (_, "input_image") => {
            part.only(&["type", "image_url", "file_id", "detail"])?;
        }
        (_, "input_file") => {
            part.only(&["type", "file_data", "file_id", "file_url", "filename"])?;
        }
        (_, other) => {
            let allowed = ["input_text", "input_image", "input_file"];
            return Err(wrong_value(&part.path("type"), other, &allowed));
        }
    }
    Ok(())
}

fn check_call(fields: Fields<'_>) -> Result<(), ApiError> {
    fields.only(&["type", "id", "call_id", "name", "arguments", "status"])?;
    fields.required_string("call_id")?;
    fields.required_string("name")?;
    fields.required_string("arguments")?;
    fields.one_of("status", &STATUSES)?;
    Ok(())
}

fn check_call_output(fields: Fields<'_>) -> Result<(), ApiError> {
    fields.only(&["type", "id", "call_id", "output", "status"])?;
    fields.required_string("call_id")?;
    fields.one_of("status", &STATUSES)?;
    match fields.required("output")? {
        Value::String(_) => Ok(()),
        Value::Array(parts) => {
            for (index, part) in parts.iter().enumerate() {
                let at = fields.path(&format!("output[{index}]"));
                check_part(Fields::of(part, &at)?, "user")?;
            }
            Ok(())
        }
        other => {
            Err(wrong_type(&fields.path("output"), "one of an array of objects or string", other))
        }
    }
}

fn check_reasoning(fields: Fields<'_>) -> Result<(), ApiError> {
    fields.only(&["type", "id", "summary", "content", "encrypted_content", "status"])?;
    fields.required_string("id")?;
    fields.required("summary")?;
    for (index, part) in fields.list("summary")?.unwrap_or_default().iter().enumerate() {
        let at = fields.path(&format!("summary[{index}]"));
        Fields::of(part, &at)?.only(&["type", "text"])?.required_string("text")?;
    }
    Ok(())
}
