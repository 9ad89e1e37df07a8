//! The one place where environment variables are read.

use std::str::FromStr;

use figment::value::Value;

use super::Setting;

/// Variables as they were when the program started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    variables: Vec<(String, String)>,
}

/// Documented names without our prefix, weaker than ours.
const FOREIGN: &[(&str, &str)] = &[
    ("AGENT_WORKSPACE_ROOT", "workspace.root"),
    ("AGENT_SESSION_IDLE_TIMEOUT", "sessions.idle_timeout_minutes"),
];

impl Environment {
    /// Of this process. Variables that are empty count as unset, as compose files make them.
    pub(crate) fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::new(std::env::vars_os().filter_map(text))
    }

    pub(crate) fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let set = |(_, value): &(String, String)| !value.is_empty();
        let mut variables: Vec<_> = variables.into_iter().filter(set).collect();
        variables.sort();
        Self { variables }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.variables.iter().find(|(variable, _)| variable == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The settings among them, weakest first. `SKEIN_<SECTION>__<KEY>`; names without the double
    /// underscore (`SKEIN_HOME`, `SKEIN_URL` …) are no settings.
    pub(super) fn settings(&self) -> Vec<Setting> {
        let foreign = FOREIGN.iter().filter_map(|(name, key)| {
            let value = self.get(name)?;
            Some(setting(name, (*key).to_owned(), value))
        });
        let ours = self.variables.iter().filter_map(|(name, value)| {
            let path = name.strip_prefix("SKEIN_").filter(|path| path.contains("__"))?;
            Some(setting(name, path.to_lowercase().replace("__", "."), value))
        });
        foreign.chain(ours).collect()
    }
}

fn setting(name: &str, key: String, value: &str) -> Setting {
    // Numbers, booleans and lists are recognised; the rest is text.
    let value = match Value::from_str(value) {
        Ok(value) => value,
        Err(never) => match never {},
    };
    Setting { key, value, origin: format!("environment variable {name}") }
}
