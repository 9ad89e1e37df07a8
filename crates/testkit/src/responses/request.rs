//! The body of `POST /v1/responses`, checked as strictly as the API does it.

use serde_json::{Map, Value, json};

use super::{
    check::{Fields, wrong_type, wrong_value},
    error::ApiError,
    input,
};

const KNOWN: [&str; 26] = [
    "background",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
    "prompt_cache_retention",
];

const INCLUDABLE: [&str; 8] = [
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
];

/// What the API keeps of a request while it works on it.
#[derive(Debug, Clone)]
pub(super) struct CreateRequest {
    /// The body as it came.
    pub(super) body: Value,
    pub(super) items: Vec<Value>,
    pub(super) previous: Option<String>,
    pub(super) stream: bool,
    pub(super) store: bool,
    pub(super) background: bool,
    /// Whether deltas carry padding, as they do unless `stream_options` says otherwise.
    pub(super) obfuscate: bool,
}

impl CreateRequest {
    pub(super) fn read(body: Value) -> Result<Self, ApiError> {
        let fields = Fields::of(&body, "")?.only(&KNOWN)?;
        check_scalars(fields)?;
        check_metadata(fields)?;
        check_include(fields)?;
        check_tools(fields)?;
        check_objects(fields)?;
        let previous = check_previous(fields)?;
        let items = input::items(fields.find("input").ok_or_else(|| fields.missing("input"))?)?;
        let stream = fields.boolean("stream")?.unwrap_or(false);
        let store = fields.boolean("store")?.unwrap_or(true);
        let background = fields.boolean("background")?.unwrap_or(false);
        if background && !store {
            return Err(ApiError::invalid("Background mode requires 'store' to be true.")
                .with_param("background"));
        }
        let obfuscate = check_stream_options(fields, stream)?;
        Ok(Self { items, previous, stream, store, background, obfuscate, body })
    }

    /// The text that scripts are matched with.
    pub(super) fn instruction(&self) -> &str {
        input::last_user_text(self.items.iter()).unwrap_or_default()
    }

    /// What a response says of the request that asked for it.
    pub(super) fn echoed(&self) -> Map<String, Value> {
        let defaults = [
            ("instructions", Value::Null),
            ("max_output_tokens", Value::Null),
            ("max_tool_calls", Value::Null),
            ("metadata", json!({})),
            ("parallel_tool_calls", json!(true)),
            ("reasoning", json!({"effort": null, "summary": null})),
            ("service_tier", json!("default")),
            ("temperature", json!(1.0)),
            ("text", json!({"format": {"type": "text"}, "verbosity": "medium"})),
            ("tool_choice", json!("auto")),
            ("tools", json!([])),
            ("top_logprobs", json!(0)),
            ("top_p", json!(1.0)),
            ("truncation", json!("disabled")),
            ("user", Value::Null),
            ("model", Value::Null),
        ];
        defaults
            .into_iter()
            .map(|(name, default)| (name.to_owned(), self.echo(name, default)))
            .collect()
    }

    /// What the request says about itself, or the default.
    fn echo(&self, name: &str, default: Value) -> Value {
        self.body.get(name).filter(|value| !value.is_null()).cloned().unwrap_or(default)
    }
}

fn check_scalars(fields: Fields<'_>) -> Result<(), ApiError> {
    if fields.required_string("model")?.is_empty() {
        return Err(fields.missing("model"));
    }
    for name in ["instructions", "user", "prompt_cache_key", "safety_identifier"] {
        fields.string(name)?;
    }
    fields.boolean("parallel_tool_calls")?;
    fields.decimal_between("temperature", 2.0)?;
    fields.decimal_between("top_p", 1.0)?;
    fields.integer_from("max_output_tokens", 16)?;
    fields.integer_from("max_tool_calls", 1)?;
    fields.integer_from("top_logprobs", 0)?;
    fields.one_of("truncation", &["auto", "disabled"])?;
    fields.one_of("service_tier", &["auto", "default", "flex", "scale", "priority"])?;
    fields.one_of("prompt_cache_retention", &["in_memory", "24h"])?;
    Ok(())
}

fn check_metadata(fields: Fields<'_>) -> Result<(), ApiError> {
    let Some(pairs) = fields.object("metadata")? else { return Ok(()) };
    if pairs.len() > 16 {
        return Err(ApiError::invalid(format!(
            "Invalid 'metadata': too many properties. Expected an object with at most 16 properties, \
             but got an object with {} properties instead.",
            pairs.len()
        ))
        .with_param("metadata")
        .with_code("object_above_max_properties"));
    }
    for (key, value) in pairs {
        let param = format!("metadata.{key}");
        let Some(text) = value.as_str() else {
            return Err(wrong_type(&param, "a string", value));
        };
        check_length(&param, key, 64)?;
        check_length(&param, text, 512)?;
    }
    Ok(())
}

fn check_length(param: &str, text: &str, most: usize) -> Result<(), ApiError> {
    let length = text.chars().count();
    if length <= most {
        return Ok(());
    }
    Err(ApiError::invalid(format!(
        "Invalid '{param}': string too long. Expected a string with maximum length {most}, \
         but got a string with length {length} instead."
    ))
    .with_param(param)
    .with_code("string_above_max_length"))
}

fn check_include(fields: Fields<'_>) -> Result<(), ApiError> {
    for (index, value) in fields.list("include")?.unwrap_or_default().iter().enumerate() {
        let param = format!("include[{index}]");
        match value.as_str() {
            Some(name) if INCLUDABLE.contains(&name) => {}
            Some(name) => return Err(wrong_value(&param, name, &INCLUDABLE)),
            None => return Err(wrong_type(&param, "a string", value)),
        }
    }
    Ok(())
}

fn check_tools(fields: Fields<'_>) -> Result<(), ApiError> {
    let tools = fields.list("tools")?.unwrap_or_default();
    for (index, tool) in tools.iter().enumerate() {
        let at = format!("tools[{index}]");
        let tool = Fields::of(tool, &at)?;
        tool.required_string("type")?;
        tool.one_of("type", &["function"])?;
        tool.only(&["type", "name", "description", "parameters", "strict"])?;
        let name = tool.required_string("name")?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            return Err(ApiError::invalid(format!(
                "Invalid '{at}.name': string does not match pattern. Expected a string that matches \
                 the pattern '^[a-zA-Z0-9_-]+$'."
            ))
            .with_param(tool.path("name"))
            .with_code("invalid_value"));
        }
        tool.string("description")?;
        tool.object("parameters")?;
        tool.boolean("strict")?;
    }
    check_tool_choice(fields, tools)
}

fn check_tool_choice(fields: Fields<'_>, tools: &[Value]) -> Result<(), ApiError> {
    match fields.find("tool_choice") {
        None => Ok(()),
        Some(Value::String(_)) => {
            fields.one_of("tool_choice", &["none", "auto", "required"])?;
            Ok(())
        }
        Some(choice) => {
            let choice = Fields::of(choice, "tool_choice")?.only(&["type", "name"])?;
            choice.one_of("type", &["function"])?;
            let name = choice.required_string("name")?;
            if tools.iter().any(|tool| tool["name"] == name) {
                return Ok(());
            }
            Err(ApiError::invalid(format!(
                "Tool choice 'function' not found in 'tools' parameter: '{name}'."
            ))
            .with_param("tool_choice"))
        }
    }
}

fn check_objects(fields: Fields<'_>) -> Result<(), ApiError> {
    if let Some(value) = fields.find("reasoning") {
        const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
        const SUMMARIES: [&str; 3] = ["auto", "concise", "detailed"];
        let reasoning = Fields::of(value, "reasoning")?;
        reasoning.only(&["effort", "summary", "generate_summary", "context", "mode"])?;
        reasoning.one_of("effort", &EFFORTS)?;
        reasoning.one_of("summary", &SUMMARIES)?;
        reasoning.one_of("generate_summary", &SUMMARIES)?;
    }
    if let Some(value) = fields.find("text") {
        let text = Fields::of(value, "text")?.only(&["format", "verbosity"])?;
        text.one_of("verbosity", &["low", "medium", "high"])?;
        if let Some(format) = text.find("format") {
            let format = Fields::of(format, "text.format")?;
            format.only(&["type", "name", "schema", "description", "strict"])?;
            format.required_string("type")?;
            format.one_of("type", &["text", "json_object", "json_schema"])?;
        }
    }
    Ok(())
}

fn check_stream_options(fields: Fields<'_>, stream: bool) -> Result<bool, ApiError> {
    let Some(value) = fields.find("stream_options") else { return Ok(true) };
    if !stream {
        return Err(ApiError::invalid(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        )
        .with_param("stream_options"));
    }
    let options = Fields::of(value, "stream_options")?.only(&["include_obfuscation"])?;
    Ok(options.boolean("include_obfuscation")?.unwrap_or(true))
}

fn check_previous(fields: Fields<'_>) -> Result<Option<String>, ApiError> {
    let Some(id) = fields.string("previous_response_id")? else { return Ok(None) };
    let wrong = |expected: &str| {
        ApiError::invalid(format!("Invalid 'previous_response_id': '{id}'. Expected {expected}"))
            .with_param("previous_response_id")
            .with_code("invalid_value")
    };
    if !id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
        return Err(wrong(
            "an ID that contains letters, numbers, underscores, or dashes, \
             but this value contained additional characters.",
        ));
    }
    if !id.starts_with("resp") {
        return Err(wrong("an ID that begins with 'resp'."));
    }
    Ok(Some(id.to_owned()))
}
