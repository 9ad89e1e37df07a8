//! `skein provider …`: works on the settings of the home, and on the providers themselves.

use serde_json::json;
use skein_core::ports::ChainKeeping;
use skein_runtimes::responses::{PRESETS, preset};

use super::{
    Context, Format,
    settings_file::{self, is_word},
};
use crate::{
    cli::{ChainChoice, ProviderAdd, ProviderCommand},
    config::{Config, Provider, Switch},
    failure::{Exit, Failure},
    output, providers,
};

pub(super) async fn run(context: &Context, command: ProviderCommand) -> Result<(), Failure> {
    match command {
        ProviderCommand::List => list(context),
        ProviderCommand::Add(add) => self::add(context, &add),
        ProviderCommand::Test { name } => test(context, &name).await,
    }
}

fn list(context: &Context) -> Result<(), Failure> {
    let config = context.load_config()?;
    let listed: Vec<_> = config
        .settings
        .providers
        .iter()
        .map(|(name, provider)| Listed::new(&config, name, provider))
        .collect();
    if context.format == Format::Json {
        let providers: Vec<_> = listed.iter().map(Listed::json).collect();
        return output::line(&json!({"providers": providers}).to_string());
    }
    if listed.is_empty() {
        output::aside(&format!("none yet; known by name: {}", known_names()));
        return Ok(());
    }
    let rows: Vec<_> = listed.iter().map(Listed::row).collect();
    output::table(&["name", "base url", "chain", "key", "background", "model"], &rows)
}

/// A provider as it is shown.
struct Listed<'a> {
    name: &'a str,
    base_url: String,
    chain: &'static str,
    key: Key,
    background: &'static str,
    model: Option<&'a str>,
}

enum Key {
    Set(String),
    Missing(String),
    NoneNeeded,
}

impl<'a> Listed<'a> {
    fn new(config: &Config, name: &'a str, provider: &'a Provider) -> Self {
        let background = provider.background == Some(Switch::On);
        Self {
            name,
            base_url: without_secrets(&providers::base_url(name, provider).unwrap_or_default()),
            chain: match providers::chain(name, provider) {
                ChainKeeping::Server => "server",
                ChainKeeping::Nobody => "none",
            },
            key: Key::of(config, name, provider),
            background: if background { "on" } else { "off" },
            model: provider.model.as_deref(),
        }
    }

    fn row(&self) -> Vec<String> {
        let key = match &self.key {
            Key::Set(_) => "set".to_owned(),
            Key::Missing(variable) => format!("missing {variable}"),
            Key::NoneNeeded => "none needed".to_owned(),
        };
        vec![
            self.name.to_owned(),
            self.base_url.clone(),
            self.chain.to_owned(),
            key,
            self.background.to_owned(),
            self.model.unwrap_or_default().to_owned(),
        ]
    }

    fn json(&self) -> serde_json::Value {
        let (key, variable) = match &self.key {
            Key::Set(variable) => ("set", Some(variable)),
            Key::Missing(variable) => ("missing", Some(variable)),
            Key::NoneNeeded => ("none_needed", None),
        };
        json!({
            "name": self.name,
            "baseUrl": self.base_url,
            "chain": self.chain,
            "key": key,
            "keyEnv": variable,
            "background": self.background,
            "model": self.model,
        })
    }
}

impl Key {
    fn of(config: &Config, name: &str, provider: &Provider) -> Self {
        match providers::key_variable(name, provider) {
            None => Self::NoneNeeded,
            Some(variable) if config.environment.get(&variable).is_some() => Self::Set(variable),
            Some(variable) => Self::Missing(variable),
        }
    }
}

async fn test(context: &Context, name: &str) -> Result<(), Failure> {
    let config = context.load_config()?;
    let provider = config.settings.providers.get(name).cloned();
    if provider.is_none() && preset(name).is_none() {
        return Err(Failure::new(Exit::NotFound, format!("there is no provider {name:?}"))
            .hint("skein provider list shows those that are set, skein provider add adds one"));
    }
    let runtime = providers::connect(&config, name)?;
    let models = runtime.probe().await.map_err(|failure| {
        let refused = Failure::new(Exit::Unavailable, format!("{name}: {}", failure.message));
        match Key::of(&config, name, &provider.unwrap_or_default()) {
            Key::Missing(variable) => refused.hint(format!("{variable} is not set")),
            Key::Set(_) | Key::NoneNeeded => refused,
        }
    })?;
    match context.format {
        Format::Json => output::line(&json!({"provider": name, "models": models}).to_string()),
        Format::Text if models.is_empty() => {
            output::note(&format!("{name} answers, and names no models"));
            Ok(())
        }
        Format::Text => models.iter().try_for_each(|model| output::line(&output::printable(model))),
    }
}

fn add(context: &Context, add: &ProviderAdd) -> Result<(), Failure> {
    let name = &add.name;
    check(add)?;
    let config = context.load_config()?;
    if config.settings.providers.contains_key(name) {
        let message = format!("there is a provider {name:?} already");
        return Err(Failure::new(Exit::Conflict, message)
            .hint(format!("change [providers.{name}] in {}", config.file.display())));
    }
    let (section, body) = (format!("providers.{name}"), section(add));
    settings_file::append(context, (&section, &body), |config| {
        providers::connect(config, name).map(drop)
    })?;
    match context.format {
        Format::Json => print_one(&context.load_config()?, name),
        Format::Text => Ok(()),
    }
}

fn print_one(config: &Config, name: &str) -> Result<(), Failure> {
    let provider = config.settings.providers.get(name);
    let listed = provider.map(|provider| Listed::new(config, name, provider).json());
    listed.map_or(Ok(()), |listed| output::line(&listed.to_string()))
}

/// What could not be written down, or should not.
fn check(add: &ProviderAdd) -> Result<(), Failure> {
    let wrong = |message: &str| Failure::new(Exit::Usage, message);
    if !is_word(&add.name) {
        return Err(wrong("a provider's name has letters, digits, - and _ only"));
    }
    // The value is not repeated: it may be the key itself.
    let key_is_name = |text: &String| {
        is_word(text) && !text.contains('-') && !text.starts_with(|c: char| c.is_ascii_digit())
    };
    if add.key_env.as_ref().is_some_and(|variable| !key_is_name(variable)) {
        return Err(wrong("--key-env takes the name of a variable")
            .hint("the key itself stays out of the settings: export it, and name the variable"));
    }
    let values = [&add.base_url, &add.model];
    if values.into_iter().flatten().any(|value| value.chars().any(char::is_control)) {
        return Err(wrong("values must not hold control characters"));
    }
    if add.base_url.is_none() && preset(&add.name).is_none() {
        return Err(wrong("the provider's address is missing")
            .hint(format!("add --base-url URL; known by name: {}", known_names())));
    }
    Ok(())
}

fn section(add: &ProviderAdd) -> String {
    let chain = add.chain.map(|chain| match chain {
        ChainChoice::Server => "server",
        ChainChoice::None => "none",
    });
    let background = add.background.then_some("on");
    let values = [
        ("base_url", add.base_url.as_deref()),
        ("key_env", add.key_env.as_deref()),
        ("chain", chain),
        ("background", background),
        ("model", add.model.as_deref()),
    ];
    let mut section = String::new();
    for (key, value) in values {
        if let Some(value) = value {
            section.push_str(&format!("{key} = {}\n", settings_file::quoted(value)));
        }
    }
    section
}

/// Addresses can hold a password, though they should not.
fn without_secrets(url: &str) -> String {
    match reqwest::Url::parse(url) {
        Ok(mut parsed) if !parsed.username().is_empty() || parsed.password().is_some() => {
            // Only fails for addresses without a host, which are none.
            let removed = parsed.set_username("").and_then(|()| parsed.set_password(None));
            removed.map_or_else(|()| String::new(), |()| parsed.to_string())
        }
        _ => url.to_owned(),
    }
}

fn known_names() -> String {
    PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ")
}
