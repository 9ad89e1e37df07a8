//! Settings: built-in defaults < `config.toml` < `AGENT_*` < `SKEIN_*` < flags.

mod check;
mod conversations;
mod environment;
mod problem;
mod sections;
mod show;

use std::path::{Path, PathBuf};

use figment::{
    Figment, Metadata, Profile,
    providers::{Format, Serialized, Toml},
    value::{Dict, Map, Value},
};

pub(crate) use conversations::ConversationSettings;
pub(crate) use environment::Environment;
pub(crate) use problem::ConfigProblem;
pub(crate) use sections::{
    AgentSettings, Chain, ConfinementChoice, Embeddings, HomeChoice, LogFormat, NetworkChoice,
    Period, PermissionChoice, Provider, Runtime, Settings, Store, Switch,
};
pub(crate) use show::ShownValue;

/// The settings in force, and where each of them came from.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) settings: Settings,
    /// Where keys are, by the names that the settings give.
    pub(crate) environment: Environment,
    /// Read if it exists.
    pub(crate) file: PathBuf,
    sources: Figment,
}

/// What was said on the command line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    pub(crate) listen: Option<String>,
    pub(crate) workspace_root: Option<String>,
}

impl Config {
    /// Reads every source. The values are well-formed, but may not be usable: see [`Config::check`].
    pub(crate) fn load(
        home: &Path,
        environment: &Environment,
        flags: &Flags,
    ) -> Result<Self, ConfigProblem> {
        let file = home.join("config.toml");
        let mut sources = Figment::from(Serialized::defaults(Settings::default()));
        // A file that is there and cannot be read is a problem; none at all is not.
        if !matches!(file.try_exists(), Ok(false)) {
            sources = sources.merge(Toml::file_exact(&file));
        }
        for setting in environment.settings().into_iter().chain(flags.settings()) {
            sources = sources.merge(setting);
        }
        let settings = sources.extract::<Settings>();
        let settings = settings.map_err(|error| ConfigProblem::from_figment(error, &file))?;
        let environment = environment.clone();
        Ok(Self { settings, environment, file, sources })
    }

    /// Refuses values that this version cannot work with.
    pub(crate) fn check(&self) -> Result<(), ConfigProblem> {
        check::check(self)
    }

    /// Sections that are set and that this version does not use yet.
    pub(crate) fn unused_sections(&self) -> Vec<&'static str> {
        check::unused_sections(&self.settings)
    }

    /// Every value with its origin, secrets left out.
    pub(crate) fn shown_values(&self) -> Vec<ShownValue> {
        show::shown_values(&self.sources)
    }

    /// Where a value came from, for people.
    fn origin(&self, key: &str) -> String {
        self.sources.find_metadata(key).map_or_else(|| DEFAULT.to_owned(), origin)
    }
}

impl Flags {
    fn settings(&self) -> Vec<Setting> {
        let flags = [
            ("server.listen", "flag --listen", &self.listen),
            ("workspace.root", "flag --workspace-root", &self.workspace_root),
        ];
        let setting = |(key, origin, value): (&str, &str, &Option<String>)| {
            let value = Value::from(value.clone()?);
            Some(Setting { key: key.to_owned(), value, origin: origin.to_owned() })
        };
        flags.into_iter().filter_map(setting).collect()
    }
}

const DEFAULT: &str = "default";

/// One value from outside the file, as a source of its own, so that its origin is exact.
#[derive(Debug, Clone)]
struct Setting {
    /// With dots, e.g. `server.listen`.
    key: String,
    value: Value,
    origin: String,
}

impl figment::Provider for Setting {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let nested = figment::util::nest(&self.key, self.value.clone());
        Ok(Profile::Default.collect(nested.into_dict().unwrap_or_default()))
    }
}

/// What a figment source is called in messages.
fn origin(metadata: &Metadata) -> String {
    match &metadata.source {
        Some(figment::Source::File(path)) => path.display().to_string(),
        Some(figment::Source::Code(_)) => DEFAULT.to_owned(),
        _ => metadata.name.to_string(),
    }
}

#[cfg(test)]
mod tests;
