//! Which well-formed settings this version can work with.

use std::net::SocketAddr;

use super::{AgentSettings, Config, ConfigProblem, Runtime, Settings, sections::is_postgres};

/// What can be named in `runtime` today.
const RUNTIMES: &str = "echo";

pub(super) fn check(config: &Config) -> Result<(), ConfigProblem> {
    let settings = &config.settings;
    check_listen(config)?;
    check_idle_timeout(config)?;
    check_limits(config)?;
    check_engines(config)?;
    for (name, agent) in &settings.agents {
        check_agent(config, name, agent)?;
    }
    check_default_agent(config)
}

/// Documented sections for capabilities that come later: accepted, so that one file serves every version.
pub(super) fn unused_sections(settings: &Settings) -> Vec<&'static str> {
    [
        ("redis", settings.redis.is_some()),
        ("retrieval", settings.retrieval.is_some()),
        ("providers", !settings.providers.is_empty()),
        ("budgets", !settings.budgets.is_empty()),
    ]
    .into_iter()
    .filter_map(|(section, is_set)| is_set.then_some(section))
    .collect()
}

impl AgentSettings {
    /// `echo` and `local` are what their names say unless they are told otherwise.
    pub(crate) fn runtime_of(&self, name: &str) -> Option<Runtime> {
        self.runtime.or(match name {
            "echo" => Some(Runtime::Echo),
            "local" => Some(Runtime::Local),
            _ => None,
        })
    }
}

fn check_listen(config: &Config) -> Result<(), ConfigProblem> {
    let listen = &config.settings.server.listen;
    match listen.parse::<SocketAddr>() {
        Ok(_) => Ok(()),
        Err(_) => Err(config.problem(
            "server.listen",
            format!("{listen:?} is not an address and a port"),
            "write it like 127.0.0.1:7534 or [::1]:7534; port 0 takes a free one",
        )),
    }
}

fn check_idle_timeout(config: &Config) -> Result<(), ConfigProblem> {
    let minutes = config.settings.sessions.idle_timeout_minutes;
    if minutes.is_finite() && minutes > 0.0 {
        return Ok(());
    }
    Err(config.problem(
        "sessions.idle_timeout_minutes",
        format!("{minutes} is not a time to wait"),
        "give minutes above 0; fractions are allowed",
    ))
}

fn check_limits(config: &Config) -> Result<(), ConfigProblem> {
    let limits = &config.settings.limits;
    let zero = [
        ("limits.request_body_bytes", limits.request_body_bytes == 0),
        ("limits.instruction_bytes", limits.instruction_bytes == 0),
        ("limits.field_bytes", limits.field_bytes == 0),
        ("limits.metadata_bytes", limits.metadata_bytes == 0),
        ("limits.streams_per_user", limits.streams_per_user == 0),
        ("limits.requests_per_second_per_user", limits.requests_per_second_per_user == 0),
        ("limits.requests_per_second_per_org", limits.requests_per_second_per_org == 0),
        ("limits.burst", limits.burst == Some(0)),
        ("limits.in_flight_per_org", limits.in_flight_per_org == 0),
        ("store.connections", config.settings.store.connections == 0),
    ]
    .into_iter()
    .find_map(|(key, is_zero)| is_zero.then_some(key));
    match zero {
        Some(key) => Err(config.problem(
            key,
            "0 would refuse everything".to_owned(),
            "leave it out for the default",
        )),
        None => Ok(()),
    }
}

fn check_engines(config: &Config) -> Result<(), ConfigProblem> {
    let store = &config.settings.store;
    let address = "write it like postgres://role@host/database";
    match store.is_postgres() {
        true if store.role().is_none() => {
            let reason = "the address names no role to log in as".to_owned();
            return Err(config.problem("store.url", reason, address));
        }
        false if store.url != "sqlite" => {
            let reason = "this is not a store that Skein knows".to_owned();
            let hint = "use \"sqlite\", or postgres://role@host/database";
            return Err(config.problem("store.url", reason, hint));
        }
        _ => {}
    }
    if store.migrate_url.as_deref().is_some_and(|url| !is_postgres(url)) {
        let reason = "this is not a PostgreSQL address".to_owned();
        return Err(config.problem("store.migrate_url", reason, address));
    }
    if config.settings.payloads.url != "db" {
        let reason = "payloads outside the database are not in this version yet".to_owned();
        return Err(config.problem("payloads.url", reason, "use \"db\""));
    }
    Ok(())
}

fn check_agent(config: &Config, name: &str, agent: &AgentSettings) -> Result<(), ConfigProblem> {
    let key = format!("agents.{name}");
    match agent.runtime_of(name) {
        Some(Runtime::Echo) => Ok(()),
        Some(other) => Err(config.problem(
            &format!("{key}.runtime"),
            format!(
                "agent {name:?} needs the runtime {:?}, which is not in this version yet",
                other.name()
            ),
            &format!("this version has: {RUNTIMES}; remove [{key}] or change its runtime"),
        )),
        None => Err(config.problem(
            &key,
            format!("agent {name:?} has no runtime"),
            &format!("add runtime = …; this version has: {RUNTIMES}"),
        )),
    }
}

fn check_default_agent(config: &Config) -> Result<(), ConfigProblem> {
    let Some(name) = &config.settings.sessions.default_agent else { return Ok(()) };
    if name == "echo" || config.settings.agents.contains_key(name) {
        return Ok(());
    }
    let known = config.settings.agents.keys().map(String::as_str);
    let known: std::collections::BTreeSet<_> = known.chain(["echo"]).collect();
    let known: Vec<_> = known.into_iter().collect();
    Err(config.problem(
        "sessions.default_agent",
        format!("there is no agent {name:?}"),
        &format!("the agents are {}", known.join(", ")),
    ))
}

impl Config {
    fn problem(&self, key: &str, reason: String, hint: &str) -> ConfigProblem {
        ConfigProblem {
            origin: self.origin(key),
            key: Some(key.to_owned()),
            reason,
            hint: Some(hint.to_owned()),
        }
    }
}
