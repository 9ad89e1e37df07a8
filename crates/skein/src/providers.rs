//! From `[providers]` to what calls them.

use std::time::Duration;

use skein_core::ports::ChainKeeping;
use skein_runtimes::responses::{ProviderSettings, Responses, Timeouts, preset};

use crate::{
    config::{AgentSettings, Chain, Config, Provider, Switch},
    failure::{Exit, Failure},
};

/// The runtime of an agent that a provider answers.
pub(crate) fn open(config: &Config, agent: &AgentSettings) -> Result<Responses, Failure> {
    let name = agent.provider.as_deref().unwrap_or_default();
    connect(config, name)
}

/// A provider by its name. The key is taken from the environment, and stays in memory.
pub(crate) fn connect(config: &Config, name: &str) -> Result<Responses, Failure> {
    let configured = config.settings.providers.get(name).cloned().unwrap_or_default();
    let settings = settings(config, name, &configured);
    Responses::new(settings).map_err(|error| {
        Failure::new(Exit::Usage, format!("the provider {name:?} cannot be used")).because(error)
    })
}

/// The variable that holds a provider's key, if it needs one.
pub(crate) fn key_variable(name: &str, provider: &Provider) -> Option<String> {
    let known = || preset(name)?.key_env.map(str::to_owned);
    provider.key_env.clone().or_else(known)
}

/// Where a provider is.
pub(crate) fn base_url(name: &str, provider: &Provider) -> Option<String> {
    let known = || preset(name).map(|preset| preset.base_url.to_owned());
    provider.base_url.clone().or_else(known)
}

/// Who remembers the conversation: the configuration's word, the preset's, or the provider.
pub(crate) fn chain(name: &str, provider: &Provider) -> ChainKeeping {
    match provider.chain {
        Some(Chain::Server) => ChainKeeping::Server,
        Some(Chain::None) => ChainKeeping::Nobody,
        None => preset(name).map_or(ChainKeeping::Server, |preset| preset.chain),
    }
}

fn settings(config: &Config, name: &str, provider: &Provider) -> ProviderSettings {
    let key = key_variable(name, provider)
        .and_then(|variable| config.environment.get(&variable).map(|key| key.to_owned().into()));
    let defaults = Timeouts::default();
    let idle = provider.idle_timeout_seconds.map(Duration::from_secs_f64);
    let total = provider.timeout_minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    ProviderSettings {
        name: name.to_owned(),
        base_url: base_url(name, provider).unwrap_or_default(),
        key,
        chain: chain(name, provider),
        background: provider.background == Some(Switch::On),
        // What the operator writes down is trusted.
        allow_private: true,
        timeouts: Timeouts {
            idle: idle.unwrap_or(defaults.idle),
            total: total.unwrap_or(defaults.total),
            ..defaults
        },
    }
}
