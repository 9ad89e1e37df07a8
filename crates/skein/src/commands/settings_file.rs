//! Adding a section to config.toml of the home, without touching the rest of it.

use std::{fs, io::ErrorKind, path::Path};

use super::Context;
use crate::{
    config::{Config, Flags},
    failure::{Exit, Failure},
    home::{self, Holder, LockState},
    output,
};

/// Appends a section once the settings with it are known to work. `check` sees them as they would be.
pub(super) fn append(
    context: &Context,
    (name, section): (&str, &str),
    check: impl FnOnce(&Config) -> Result<(), Failure>,
) -> Result<(), Failure> {
    context.home.prepare()?;
    let config = context.load_config()?;
    // A link stays a link, and what it leads to is changed.
    let file = config.file.canonicalize().unwrap_or_else(|_| config.file.clone());
    let before = read(&file)?;
    let after = format!("{before}{}[{name}]\n{section}", divider(&before));
    try_out(context, (&file, &after), check)?;
    home::write_private(&file, after.as_bytes()).map_err(|error| {
        Failure::new(Exit::Unavailable, format!("cannot write {}", file.display())).because(error)
    })?;
    output::note(&format!("added [{name}] to {}", file.display()));
    if let Ok(LockState::Held(Holder { url: Some(_), .. })) = context.home.lock_state() {
        output::note("the server that runs on this home must be restarted to use it");
    }
    Ok(())
}

/// Whether the text can stand as a bare key of the file.
pub(super) fn is_word(text: &str) -> bool {
    let mut characters = text.chars();
    !text.is_empty() && characters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// A text as the file has it.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Loads the settings as they would be, before anything is changed.
fn try_out(
    context: &Context,
    (file, content): (&Path, &str),
    check: impl FnOnce(&Config) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let trial = context.home.path().join(format!("trial-{}", std::process::id()));
    let refused = |error: std::io::Error| {
        Failure::new(Exit::Unavailable, format!("cannot use {}", trial.display())).because(error)
    };
    fs::create_dir_all(&trial).map_err(refused)?;
    let tried = home::write_private(&trial.join("config.toml"), content.as_bytes())
        .map_err(refused)
        .and_then(|()| {
            let config = Config::load(&trial, &context.environment, &Flags::default())?;
            config.check()?;
            check(&config)
        });
    drop(fs::remove_dir_all(&trial));
    tried.map_err(|failure| {
        let shown = trial.join("config.toml").display().to_string();
        let message = failure.message.replace(&shown, &file.display().to_string());
        Failure { message: format!("{message}; nothing was changed"), ..failure }
    })
}

/// What has to stand between the end of a file and a new section.
fn divider(before: &str) -> &'static str {
    match before {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(error) => {
            let message = format!("cannot read {}", file.display());
            Err(Failure::new(Exit::Unavailable, message).because(error))
        }
    }
}
