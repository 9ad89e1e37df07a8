//! The settings in force, for people: each value with its origin, secrets left out.

use figment::{
    Figment,
    value::{Dict, Value},
};
use serde::Serialize;

use super::{DEFAULT, origin};

const HIDDEN: &str = "(hidden)";

/// One value and where it came from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ShownValue {
    pub(crate) key: String,
    pub(crate) value: serde_json::Value,
    pub(crate) origin: String,
}

pub(super) fn shown_values(sources: &Figment) -> Vec<ShownValue> {
    let mut values = Vec::new();
    if let Ok(all) = sources.extract::<Dict>() {
        collect(sources, &all, &mut Vec::new(), &mut values);
    }
    values
}

fn collect<'a>(
    sources: &Figment,
    dict: &'a Dict,
    path: &mut Vec<&'a str>,
    values: &mut Vec<ShownValue>,
) {
    for (key, value) in dict {
        path.push(key);
        match value {
            Value::Dict(_, inner) => collect(sources, inner, path, values),
            leaf => values.push(ShownValue {
                key: path.join("."),
                value: shown(path, leaf),
                origin: sources.get_metadata(leaf.tag()).map_or_else(|| DEFAULT.to_owned(), origin),
            }),
        }
        path.pop();
    }
}

fn shown(path: &[&str], value: &Value) -> serde_json::Value {
    if is_secret(path) {
        return HIDDEN.into();
    }
    let value = serde_json::to_value(value).unwrap_or_default();
    match &value {
        serde_json::Value::String(text) => without_password(text).map_or(value, Into::into),
        _ => value,
    }
}

/// Environments of agents, and whatever is called a secret. `key_env` names a variable and is none.
fn is_secret(path: &[&str]) -> bool {
    let in_agent_environment = matches!(path, ["agents", _, "env", ..]);
    let named_secret = path.last().is_some_and(|name| {
        ["key", "token", "secret", "password"].iter().any(|word| name.ends_with(word))
    });
    in_agent_environment || named_secret
}

/// The address without the password in it, if it has one. Rather too much is hidden than too little.
fn without_password(text: &str) -> Option<String> {
    if text.contains("password=") {
        return Some(HIDDEN.to_owned());
    }
    let (scheme, rest) = text.split_once("://")?;
    let (user_info, place) = rest.rsplit_once('@')?;
    let (user, _) = user_info.split_once(':')?;
    Some(format!("{scheme}://{user}:{HIDDEN}@{place}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_are_left_out() {
        let shown = [
            "postgres://skein:pa@ss:w/rd@db/skein",
            "postgres://skein:secret@db:5432/skein?sslmode=require",
            "redis://:secret@127.0.0.1:6379",
            "postgres://db/skein?password=secret",
            "postgres://skein@db/skein",
            "sqlite",
        ]
        .map(without_password);

        assert_eq!(
            shown,
            [
                Some("postgres://skein:(hidden)@db/skein".to_owned()),
                Some("postgres://skein:(hidden)@db:5432/skein?sslmode=require".to_owned()),
                Some("redis://:(hidden)@127.0.0.1:6379".to_owned()),
                Some("(hidden)".to_owned()),
                None,
                None,
            ]
        );
    }
}
