//! What is logged, to stderr and nowhere else.

use std::io;

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::{
    config::{LogFormat, Settings},
    failure::{Exit, Failure},
};

/// Begins logging. `filter` is `SKEIN_LOG`, stronger than the settings.
pub(crate) fn start(settings: &Settings, filter: Option<&str>) -> Result<(), Failure> {
    let (origin, text) = match filter {
        Some(filter) => ("SKEIN_LOG", filter),
        None => ("log.filter", settings.log.filter.as_str()),
    };
    let filter = EnvFilter::try_new(text).map_err(|error| {
        Failure::new(Exit::Usage, format!("{origin}: {text:?} is not a log filter"))
            .because(error)
            .hint("write it like info or warn,skein=debug")
    })?;
    let registry = tracing_subscriber::registry().with(filter);
    let started = match settings.log.format {
        LogFormat::Text => {
            let ansi = anstream::stderr().current_choice() != anstream::ColorChoice::Never;
            registry.with(fmt::layer().with_writer(io::stderr).with_ansi(ansi)).try_init()
        }
        LogFormat::Json => registry.with(fmt::layer().json().with_writer(io::stderr)).try_init(),
    };
    started.map_err(|error| Failure::new(Exit::Failed, "logging cannot start").because(error))
}
