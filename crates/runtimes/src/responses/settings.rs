//! How a provider is reached, and the providers whose addresses are known.

use std::time::Duration;

use secrecy::SecretString;
use skein_core::ports::ChainKeeping;

/// One provider of the Responses API.
#[derive(Debug, Clone)]
pub struct ProviderSettings {
    pub name: String,
    /// What stands before `/responses`.
    pub base_url: String,
    pub key: Option<SecretString>,
    pub chain: ChainKeeping,
    /// Whether responses are to outlive their connections. Has no effect on a provider that keeps nothing.
    pub background: bool,
    /// Whether the address may be one of this machine or network: for providers that the operator's
    /// configuration names.
    pub allow_private: bool,
    pub timeouts: Timeouts,
}

impl ProviderSettings {
    /// A provider in the open that keeps its chains and needs no key.
    pub fn new(name: impl Into<String>, base_url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            base_url: base_url.into(),
            key: None,
            chain: ChainKeeping::Server,
            background: false,
            allow_private: false,
            timeouts: Timeouts::default(),
        }
    }
}

/// Nobody waits longer, and times further away cannot be reckoned with.
const MAX_TIMEOUT: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long a provider may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    /// Without a byte from the provider.
    pub idle: Duration,
    /// For a whole answer, pauses between calls included.
    pub total: Duration,
}

impl Timeouts {
    pub(super) fn bounded(self) -> Self {
        Self {
            connect: self.connect.min(MAX_TIMEOUT),
            idle: self.idle.min(MAX_TIMEOUT),
            total: self.total.min(MAX_TIMEOUT),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            // Models that reason say nothing for minutes.
            idle: Duration::from_secs(300),
            total: Duration::from_secs(3600),
        }
    }
}

/// Why a provider cannot be used as it is set.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("base URL {url:?} of provider {provider:?} is not an http or https address: {reason}")]
    BaseUrl { provider: String, url: String, reason: String },
    #[error(
        "base URL {url:?} of provider {provider:?} is a private address, which only the configuration file may name"
    )]
    PrivateAddress { provider: String, url: String },
    #[error("the key of provider {provider:?} has characters that no HTTP header can carry")]
    Key { provider: String },
    #[error("no HTTP client can be made for provider {provider:?}")]
    Client { provider: String, source: reqwest::Error },
}

/// What is known about a provider by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    pub name: &'static str,
    pub base_url: &'static str,
    /// The environment variable that usually holds the key. None where no key is needed.
    pub key_env: Option<&'static str>,
    pub chain: ChainKeeping,
}

/// Providers that can be used without naming their addresses.
pub const PRESETS: [Preset; 5] = [
    Preset {
        name: "openai",
        base_url: "https://api.openai.com/v1",
        key_env: Some("OPENAI_API_KEY"),
        chain: ChainKeeping::Server,
    },
    Preset {
        name: "ollama",
        base_url: "http://127.0.0.1:11434/v1",
        key_env: None,
        chain: ChainKeeping::Nobody,
    },
    Preset {
        name: "lmstudio",
        base_url: "http://127.0.0.1:1234/v1",
        key_env: None,
        chain: ChainKeeping::Server,
    },
    Preset {
        name: "vllm",
        base_url: "http://127.0.0.1:8000/v1",
        key_env: None,
        chain: ChainKeeping::Nobody,
    },
    Preset {
        name: "openrouter",
        base_url: "https://openrouter.ai/api/v1",
        key_env: Some("OPENROUTER_API_KEY"),
        chain: ChainKeeping::Nobody,
    },
];

/// The preset of this name.
pub fn preset(name: &str) -> Option<Preset> {
    PRESETS.into_iter().find(|preset| preset.name == name)
}
