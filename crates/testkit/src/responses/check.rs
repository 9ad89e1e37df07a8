//! Strict reading of JSON: every field is known, and every value has its type.

use serde_json::{Map, Value};

use super::error::ApiError;

type Checked<T> = Result<T, ApiError>;

/// One object of a request and where in the request it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    object: &'a Map<String, Value>,
    at: &'a str,
}

impl<'a> Fields<'a> {
    /// `at` is empty for the request itself.
    pub(super) fn of(value: &'a Value, at: &'a str) -> Checked<Self> {
        match value.as_object() {
            Some(object) => Ok(Self { object, at }),
            None => Err(wrong_type(at, "an object", value)),
        }
    }

    pub(super) fn only(self, known: &[&str]) -> Checked<Self> {
        match self.object.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(self),
            Some(name) => {
                let param = self.path(name);
                Err(ApiError::invalid(format!("Unknown parameter: '{param}'."))
                    .with_param(param)
                    .with_code("unknown_parameter"))
            }
        }
    }

    /// A field that is there and not null.
    pub(super) fn find(self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn required(self, name: &str) -> Checked<&'a Value> {
        self.object.get(name).ok_or_else(|| self.missing(name))
    }

    pub(super) fn missing(self, name: &str) -> ApiError {
        let param = self.path(name);
        ApiError::invalid(format!("Missing required parameter: '{param}'."))
            .with_param(param)
            .with_code("missing_required_parameter")
    }

    pub(super) fn string(self, name: &str) -> Checked<Option<&'a str>> {
        self.typed(name, "a string", Value::as_str)
    }

    pub(super) fn required_string(self, name: &str) -> Checked<&'a str> {
        let value = self.required(name)?;
        value.as_str().ok_or_else(|| wrong_type(&self.path(name), "a string", value))
    }

    pub(super) fn boolean(self, name: &str) -> Checked<Option<bool>> {
        self.typed(name, "a boolean", Value::as_bool)
    }

    pub(super) fn list(self, name: &str) -> Checked<Option<&'a [Value]>> {
        self.typed(name, "an array of objects", |value| value.as_array().map(Vec::as_slice))
    }

    pub(super) fn object(self, name: &str) -> Checked<Option<&'a Map<String, Value>>> {
        self.typed(name, "an object", Value::as_object)
    }

    pub(super) fn integer_from(self, name: &str, least: i64) -> Checked<Option<i64>> {
        let found = self.typed(name, "an integer", Value::as_i64)?;
        match found {
            Some(value) if value < least => Err(self.out_of_range(
                name,
                "integer_below_min_value",
                &format!(
                    "integer below minimum value. Expected a value >= {least}, but got {value} instead."
                ),
            )),
            other => Ok(other),
        }
    }

    pub(super) fn decimal_between(self, name: &str, most: f64) -> Checked<Option<f64>> {
        let found = self.typed(name, "a decimal", Value::as_f64)?;
        match found {
            Some(value) if value < 0.0 => Err(self.out_of_range(
                name,
                "decimal_below_min_value",
                &format!(
                    "decimal below minimum value. Expected a value >= 0, but got {value} instead."
                ),
            )),
            Some(value) if value > most => Err(self.out_of_range(
                name,
                "decimal_above_max_value",
                &format!(
                    "decimal above maximum value. Expected a value <= {most}, but got {value} instead."
                ),
            )),
            other => Ok(other),
        }
    }

    /// A string out of a closed list.
    pub(super) fn one_of(self, name: &str, allowed: &[&str]) -> Checked<Option<&'a str>> {
        match self.string(name)? {
            Some(value) if !allowed.contains(&value) => {
                Err(wrong_value(&self.path(name), value, allowed))
            }
            other => Ok(other),
        }
    }

    pub(super) fn path(self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }

    fn typed<T>(
        self,
        name: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Checked<Option<T>> {
        let Some(value) = self.find(name) else { return Ok(None) };
        match read(value) {
            Some(found) => Ok(Some(found)),
            None => Err(wrong_type(&self.path(name), expected, value)),
        }
    }

    fn out_of_range(self, name: &str, code: &str, why: &str) -> ApiError {
        let param = self.path(name);
        ApiError::invalid(format!("Invalid '{param}': {why}")).with_param(param).with_code(code)
    }
}

pub(super) fn wrong_type(param: &str, expected: &str, found: &Value) -> ApiError {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a decimal",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    ApiError::invalid(format!(
        "Invalid type for '{param}': expected {expected}, but got {found} instead."
    ))
    .with_param(param)
    .with_code("invalid_type")
}

pub(super) fn wrong_value(param: &str, found: &str, allowed: &[&str]) -> ApiError {
    let allowed: Vec<_> = allowed.iter().map(|value| format!("'{value}'")).collect();
    ApiError::invalid(format!(
        "Invalid value: '{found}'. Supported values are: {}.",
        allowed.join(", ")
    ))
    .with_param(param)
    .with_code("invalid_value")
}
