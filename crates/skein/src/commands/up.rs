//! `skein up`: what a person sees who has just typed `skein`, and the index of where they are.

use std::{os::unix::fs::PermissionsExt, path::Path, time::Duration};

use skein_runtimes::acp::PRESETS;
use tokio::{net::TcpStream, time::timeout};

use super::{
    Context, Format,
    index::{
        progress::{self, Progress},
        trust,
    },
    place::Place,
    registered,
};
use crate::{
    acp,
    config::{Config, Environment, Runtime},
    failure::{Exit, Failure},
    output, providers,
    transport::Client,
};

const OLLAMA: &str = "127.0.0.1:11434";
const OLLAMA_PATIENCE: Duration = Duration::from_millis(200);
/// Every repository can answer this one.
const QUESTION: &str = "what is this project?";

/// Says what is there, and indexes the work tree around. The server goes on whatever happens here.
pub(super) async fn welcome(context: &Context, config: &Config, url: &str) {
    let is_told = context.format == Format::Text;
    if is_told {
        output::note(&format!("\nstore   {}", store(context, config)));
        output::note(&format!("search  {}", search(config)));
        for line in agents(config, &context.environment, is_ollama_there().await) {
            output::note(&line);
        }
    }
    let place = Place::here().ok().and_then(|place| place.work_tree());
    let Some(root) = place else {
        if is_told {
            output::note("index   no Git work tree here; skein index add PATH indexes one");
            output::note(&format!(
                "\nTry this in another terminal:\n\n  skein ask \"Hello, Skein\"\n{}",
                end(url)
            ));
        }
        return;
    };
    let indexed = index(context, url, &root).await;
    if !is_told {
        return;
    }
    match indexed {
        Ok(summary) => {
            output::note(&format!("index   {summary}"));
            let question = format!("cd {}\n  skein ask \"{QUESTION}\"", output::shell_word(&root));
            output::note(&format!("\nTry this in another terminal:\n\n  {question}\n{}", end(url)));
        }
        Err(failure) => {
            output::note(&format!("index   {} is not indexed:", output::printable(&root)));
            output::failure(&failure);
            output::note(&end(url));
        }
    }
}

fn end(url: &str) -> String {
    format!("\nThe API is described at {url}/docs. Ctrl-C stops.")
}

/// Exactly this work tree, and nothing above or below it.
async fn index(context: &Context, url: &str, root: &str) -> Result<String, Failure> {
    trust::trust(&context.home, root)?;
    let missing = || Failure::new(Exit::Auth, "the home holds no token");
    let token = context.home.read_token().map_err(|error| missing().because(error))?;
    let client = Client::own(token.ok_or_else(missing)?, url)?;
    let repo = registered::register(&client, root, None).await?;
    if context.format == Format::Text {
        output::note(&format!("index   {} is brought up to date", output::printable(root)));
    }
    let shown = match context.format {
        Format::Text => Progress::bar_or_nothing(repo.name()),
        Format::Json => Progress::Silent,
    };
    let status = progress::run(&client, &repo, None, shown).await?;
    progress::check(&repo, &status)?;
    Ok(format!("{} is ready: {}", output::printable(repo.name()), progress::summary(&status)))
}

fn store(context: &Context, config: &Config) -> String {
    match config.settings.store.is_postgres() {
        true => "PostgreSQL".to_owned(),
        false => format!("SQLite, {}", context.home.database_file().display()),
    }
}

fn search(config: &Config) -> String {
    let retrieval = &config.settings.retrieval;
    let place = if retrieval.is_embedded() { "" } else { "in Qdrant, " };
    match &retrieval.embeddings {
        Some(embeddings) => format!("{place}by words, and by meaning with {}", embeddings.model),
        None => format!("{place}by words; [retrieval.embeddings] in config.toml adds meaning"),
    }
}

/// One line each: those that answer now, then those that could be connected, with how.
fn agents(config: &Config, environment: &Environment, has_ollama: bool) -> Vec<String> {
    let mut lines = vec!["agents  local: quotes the index; needs no key and no model".to_owned()];
    let mut add = |text: String| lines.push(format!("        {text}"));
    let configured = &config.settings.providers;
    for (name, provider) in configured {
        add(match providers::key_variable(name, provider) {
            Some(key) if environment.get(&key).is_none() => {
                format!("{name}: {key} is not set; export it and start again")
            }
            _ => format!("{name}: ready; skein ask -a {name} …"),
        });
    }
    if !configured.contains_key("openai") {
        add(match environment.get("OPENAI_API_KEY") {
            Some(_) => "openai: OPENAI_API_KEY is set; connect it: skein provider add openai --model gpt-5".to_owned(),
            None => "openai: no key; export OPENAI_API_KEY, then: skein provider add openai --model gpt-5".to_owned(),
        });
    }
    if has_ollama && !configured.contains_key("ollama") {
        add(format!(
            "ollama: runs at {OLLAMA}; connect it: skein provider add ollama --model NAME"
        ));
    }
    for (name, agent) in &config.settings.agents {
        if agent.runtime_of(name) == Some(Runtime::Acp) {
            let program =
                acp::command(agent, acp::preset(name)).into_iter().next().unwrap_or_default();
            add(match program.starts_with('/') || is_in_path(environment, &program) {
                true => format!("{name}: ready; skein ask -a {name} …"),
                false => format!("{name}: {} is not installed", output::printable(&program)),
            });
        }
    }
    for preset in PRESETS {
        let (name, program) = (preset.name, preset.command.first().copied().unwrap_or_default());
        if config.settings.agents.contains_key(name) {
            continue;
        }
        if is_in_path(environment, program) {
            add(format!("{name}: installed; connect it: skein agent add {name}"));
        } else if is_in_path(environment, name) {
            let install = preset.install;
            add(format!(
                "{name}: speaks through {program}; {install}, then: skein agent add {name}"
            ));
        }
    }
    lines
}

async fn is_ollama_there() -> bool {
    timeout(OLLAMA_PATIENCE, TcpStream::connect(OLLAMA)).await.is_ok_and(|found| found.is_ok())
}

pub(super) fn is_in_path(environment: &Environment, command: &str) -> bool {
    let path = environment.get("PATH").unwrap_or_default();
    let mut directories = path.split(':').filter(|directory| directory.starts_with('/'));
    directories.any(|directory| is_program(&Path::new(directory).join(command)))
}

pub(super) fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
