//! `skein config …`

use serde_json::json;

use super::{Context, Format};
use crate::{
    cli::ConfigCommand,
    config::{Config, Flags},
    failure::Failure,
    output,
};

pub(super) fn run(context: &Context, command: &ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Show => show(context),
    }
}

/// Also shows settings that this version cannot work with, so that they can be found.
fn show(context: &Context) -> Result<(), Failure> {
    let config = Config::load(context.home.path(), &context.environment, &Flags::default())?;
    let values = config.shown_values();
    match context.format {
        Format::Json => {
            let home = context.home.path();
            output::line(
                &json!({"home": home, "file": config.file, "values": values}).to_string(),
            )?;
        }
        Format::Text => {
            output::aside(&format!("home {}", context.home.path().display()));
            let row = |shown: &crate::config::ShownValue| {
                vec![shown.key.clone(), shown.value.to_string(), shown.origin.clone()]
            };
            let rows: Vec<_> = values.iter().map(row).collect();
            output::table(&["setting", "value", "origin"], &rows)?;
        }
    }
    Ok(config.check()?)
}
