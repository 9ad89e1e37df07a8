//! Which well-formed settings this version can work with.

use std::net::SocketAddr;

use skein_core::{platform, registry};
use skein_runtimes::responses::{PRESETS, preset};

use crate::acp;

use super::{
    AgentSettings, Config, ConfigProblem, ConversationSettings, Embeddings, Provider, Runtime,
    Settings,
    sections::{BUILT_IN_AGENTS, is_postgres},
};

/// What can be named in `runtime` today.
const RUNTIMES: &str = "acp, echo, local, responses";

pub(super) fn check(config: &Config) -> Result<(), ConfigProblem> {
    let settings = &config.settings;
    check_listen(config)?;
    check_idle_timeout(config)?;
    check_limits(config)?;
    check_engines(config)?;
    check_retrieval(config)?;
    for (name, provider) in &settings.providers {
        check_provider(config, name, provider)?;
    }
    for (name, agent) in &settings.agents {
        check_agent(config, name, agent)?;
    }
    for (name, context) in &settings.conversation_contexts {
        check_conversation_context(config, name, context)?;
    }
    check_default_agent(config)
}

/// Documented sections for capabilities that come later: accepted, so that one file serves every version.
pub(super) fn unused_sections(settings: &Settings) -> Vec<&'static str> {
    settings.redis.iter().map(|_| "redis").collect()
}

impl AgentSettings {
    /// `echo` and `local` are what their names say unless they are told otherwise.
    pub(crate) fn runtime_of(&self, name: &str) -> Option<Runtime> {
        self.runtime.or(match name {
            known if acp::preset(known).is_some() => Some(Runtime::Acp),
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

fn check_retrieval(config: &Config) -> Result<(), ConfigProblem> {
    let retrieval = &config.settings.retrieval;
    if !retrieval.is_embedded() && !is_http(&retrieval.url) {
        let reason = "this is not an index that Skein knows".to_owned();
        let hint = "use \"embedded\", or the address of a Qdrant like http://127.0.0.1:6333";
        return Err(config.problem("retrieval.url", reason, hint));
    }
    // It becomes a part of an address.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !(1..=128).contains(&retrieval.collection.len())
        || !retrieval.collection.chars().all(is_plain)
    {
        let reason = "this is not the name of a collection".to_owned();
        let hint = "use up to 128 letters, digits, - and _";
        return Err(config.problem("retrieval.collection", reason, hint));
    }
    match &retrieval.embeddings {
        Some(embeddings) => check_embeddings(config, embeddings),
        None => Ok(()),
    }
}

fn check_embeddings(config: &Config, embeddings: &Embeddings) -> Result<(), ConfigProblem> {
    /// Texts of one request are in memory together.
    const MAX_BATCH: usize = 2_048;
    const MAX_DIMENSIONS: usize = 65_536;
    let problem = |field: &str, reason: &str, hint: &str| {
        Err(config.problem(&format!("retrieval.embeddings.{field}"), reason.to_owned(), hint))
    };
    if !is_http(&embeddings.base_url) {
        let hint = "write it like http://127.0.0.1:11434/v1; /embeddings is added";
        return problem("base_url", "this is not an HTTP address", hint);
    }
    if embeddings.model.trim().is_empty() {
        return problem("model", "there is no model of this name", "name the endpoint's model");
    }
    if embeddings.timeout_seconds.is_some_and(|time| !time.is_finite() || time <= 0.0) {
        return problem("timeout_seconds", "this is not a time to wait", "give more than 0");
    }
    if embeddings.batch.is_some_and(|batch| !(1..=MAX_BATCH).contains(&batch)) {
        return problem("batch", "so many texts cannot be sent at once", "give 1 to 2048");
    }
    if embeddings.dimensions.is_some_and(|count| !(1..=MAX_DIMENSIONS).contains(&count)) {
        return problem("dimensions", "no vector has so many", "leave it out if you do not know");
    }
    Ok(())
}

fn is_http(url: &str) -> bool {
    let parsed = reqwest::Url::parse(url);
    parsed.is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

fn check_agent(config: &Config, name: &str, agent: &AgentSettings) -> Result<(), ConfigProblem> {
    let key = format!("agents.{name}");
    match agent.runtime_of(name) {
        Some(Runtime::Echo | Runtime::Local) => Ok(()),
        Some(Runtime::Responses) => check_provider_of(config, name, agent),
        Some(Runtime::Acp) => check_acp(config, name, agent),
        None => Err(config.problem(
            &key,
            format!("agent {name:?} has no runtime"),
            &format!("add runtime = …; this version has: {RUNTIMES}"),
        )),
    }
}

fn check_acp(config: &Config, name: &str, agent: &AgentSettings) -> Result<(), ConfigProblem> {
    let key = format!("agents.{name}");
    if acp::command(agent, acp::preset(name)).is_empty() {
        let known: Vec<_> = skein_runtimes::acp::PRESETS.iter().map(|preset| preset.name).collect();
        return Err(config.problem(
            &key,
            format!("agent {name:?} has no command"),
            &format!("add command = [\"PROGRAM\", …]; known without one: {}", known.join(", ")),
        ));
    }
    let times = [
        ("timeout_minutes", agent.timeout_minutes),
        ("permission_timeout_minutes", agent.permission_timeout_minutes),
    ];
    for (setting, minutes) in times {
        let is_time = |minutes: f64| minutes > 0.0 && minutes < 1e9;
        if let Some(minutes) = minutes.filter(|minutes| !is_time(*minutes)) {
            return Err(config.problem(
                &format!("{key}.{setting}"),
                format!("{minutes} is not a time to wait"),
                "give minutes above 0; fractions are allowed",
            ));
        }
    }
    if let Some(path) = agent.read_paths.iter().find(|path| !path.starts_with('/')) {
        let reason = format!("{path:?} is not an absolute path");
        return Err(config.problem(&format!("{key}.read_paths"), reason, "write it from the root"));
    }
    Ok(())
}

fn check_provider(config: &Config, name: &str, provider: &Provider) -> Result<(), ConfigProblem> {
    let key = format!("providers.{name}");
    if provider.base_url.is_none() && preset(name).is_none() {
        let known: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
        return Err(config.problem(
            &key,
            format!("provider {name:?} has no address"),
            &format!("add base_url = …; the ones known by name are {}", known.join(", ")),
        ));
    }
    let times = [
        ("idle_timeout_seconds", provider.idle_timeout_seconds),
        ("timeout_minutes", provider.timeout_minutes),
    ];
    for (field, time) in times {
        if time.is_some_and(|time| !time.is_finite() || time <= 0.0) {
            let reason = "this is not a time to wait".to_owned();
            return Err(config.problem(&format!("{key}.{field}"), reason, "give more than 0"));
        }
    }
    Ok(())
}

fn check_provider_of(
    config: &Config,
    name: &str,
    agent: &AgentSettings,
) -> Result<(), ConfigProblem> {
    let key = format!("agents.{name}.provider");
    let Some(provider) = &agent.provider else {
        let reason = format!("agent {name:?} names no provider");
        return Err(config.problem(&key, reason, "add provider = …, as in [providers.NAME]"));
    };
    if config.settings.providers.contains_key(provider) || preset(provider).is_some() {
        return Ok(());
    }
    let reason = format!("there is no provider {provider:?}");
    Err(config.problem(&key, reason, &format!("add [providers.{provider}] with its base_url")))
}

/// By the rules of the API, so that one can be moved from there to here.
fn check_conversation_context(
    config: &Config,
    name: &str,
    context: &ConversationSettings,
) -> Result<(), ConfigProblem> {
    let field_bytes = config.settings.limits.field_bytes;
    let limits = platform::Limits { field_bytes, ..platform::Limits::default() };
    registry::check_conversation_context(&limits, name, &context.spec()).map_err(|error| {
        let key = format!("conversation_contexts.{name}");
        config.problem(&key, error.to_string(), "the rules of POST /api/conversation-contexts hold")
    })
}

fn check_default_agent(config: &Config) -> Result<(), ConfigProblem> {
    let Some(name) = &config.settings.sessions.default_agent else { return Ok(()) };
    let settings = &config.settings;
    let is_built_in = BUILT_IN_AGENTS.contains(&name.as_str());
    if is_built_in || settings.agents.contains_key(name) || settings.providers.contains_key(name) {
        return Ok(());
    }
    let known = settings.agents.keys().chain(settings.providers.keys()).map(String::as_str);
    let known: std::collections::BTreeSet<_> =
        known.chain(BUILT_IN_AGENTS.iter().copied()).collect();
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
