//! `skein agent …`: works on the settings of the home, and on the agents themselves.

use std::{path::Path, process::Stdio, time::Duration};

use serde_json::{Value, json};
use skein_runtimes::acp::{self as runtime, PRESETS, Preset};
use tokio::{process::Command, time::timeout};

use super::{
    Context, Format, settings_file,
    up::{is_in_path, is_program},
};
use crate::{
    acp,
    cli::{AgentAdd, AgentCommand},
    config::{AgentSettings, Config, Runtime},
    failure::{Exit, Failure},
    output,
};

/// Longer than any agent was seen to need for its version.
const VERSION_PATIENCE: Duration = Duration::from_secs(15);

pub(super) async fn run(context: &Context, command: AgentCommand) -> Result<(), Failure> {
    match command {
        AgentCommand::List => list(context).await,
        AgentCommand::Add(add) => self::add(context, &add),
        AgentCommand::Test { name } => test(context, &name).await,
    }
}

/// An agent as it is shown.
struct Listed {
    name: String,
    runtime: &'static str,
    command: Vec<String>,
    state: String,
}

async fn list(context: &Context) -> Result<(), Failure> {
    let config = context.load_config()?;
    let mut listed = Vec::new();
    for (name, agent) in config.settings.agents_with_defaults() {
        listed.push(Listed::configured(context, &name, &agent).await);
    }
    for preset in PRESETS {
        if !listed.iter().any(|known| known.name == preset.name) {
            listed.push(Listed::known(context, preset).await);
        }
    }
    if context.format == Format::Json {
        let agents: Vec<_> = listed.iter().map(Listed::json).collect();
        return output::line(&json!({"agents": agents}).to_string());
    }
    let rows: Vec<_> = listed.iter().map(Listed::row).collect();
    output::table(&["name", "runtime", "state", "command"], &rows)
}

impl Listed {
    async fn configured(context: &Context, name: &str, agent: &AgentSettings) -> Self {
        let (runtime, command) = match agent.runtime_of(name) {
            Some(Runtime::Acp) => ("acp", acp::command(agent, acp::preset(name))),
            Some(Runtime::Echo) => ("echo", Vec::new()),
            Some(Runtime::Local) => ("local", Vec::new()),
            Some(Runtime::Responses) => ("responses", Vec::new()),
            None => ("", Vec::new()),
        };
        let state = match command.first() {
            None => "ready".to_owned(),
            Some(program) => match find(context, program).await {
                Program::Runs { version } => format!("ready, {version}"),
                Program::NotExecutable => format!("{program} is not executable"),
                Program::Missing => not_installed(name, program),
            },
        };
        Self { name: name.to_owned(), runtime, command, state }
    }

    async fn known(context: &Context, preset: &Preset) -> Self {
        let (name, program) = (preset.name, preset.command.first().copied().unwrap_or_default());
        let state = match find(context, program).await {
            Program::Runs { version } => {
                format!("installed, {version}; use it: skein agent add {name}")
            }
            Program::NotExecutable | Program::Missing => {
                format!("not installed: {}", preset.install)
            }
        };
        let command = preset.command.iter().map(|word| (*word).to_owned()).collect();
        Self { name: name.to_owned(), runtime: "acp", command, state }
    }

    fn row(&self) -> Vec<String> {
        let command = self.command.join(" ");
        vec![self.name.clone(), self.runtime.to_owned(), self.state.clone(), command]
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "runtime": self.runtime, "command": self.command, "state": self.state,
        })
    }
}

/// What there is under the name of a program.
enum Program {
    Runs {
        /// The first line that it tells of its version.
        version: String,
    },
    NotExecutable,
    Missing,
}

async fn find(context: &Context, program: &str) -> Program {
    match program.starts_with('/') {
        true if is_program(Path::new(program)) => {}
        true if Path::new(program).is_file() => return Program::NotExecutable,
        false if is_in_path(&context.environment, program) => {}
        true | false => return Program::Missing,
    }
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let told = timeout(VERSION_PATIENCE, command.output()).await.ok().and_then(Result::ok);
    let told = told.filter(|told| told.status.success());
    let said = told.map(|told| String::from_utf8_lossy(&told.stdout).into_owned());
    let line = said.as_deref().and_then(|said| said.lines().next()).unwrap_or("version unknown");
    Program::Runs { version: output::printable(line.trim()) }
}

/// With how to get it, if it is the program that is known for the name.
fn not_installed(name: &str, program: &str) -> String {
    match acp::preset(name).filter(|preset| preset.command.first() == Some(&program)) {
        Some(preset) => format!("{program} is not installed: {}", preset.install),
        None => format!("{program} is not installed"),
    }
}

fn add(context: &Context, add: &AgentAdd) -> Result<(), Failure> {
    let name = &add.name;
    let wrong = |message: &str| Failure::new(Exit::Usage, message);
    if !settings_file::is_word(name) {
        return Err(wrong("an agent's name has letters, digits, - and _ only"));
    }
    if add.command.is_empty() && acp::preset(name).is_none() {
        let known: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
        return Err(wrong("the agent's command is missing").hint(format!(
            "skein agent add {name} -- PROGRAM ARGUMENTS…; known by name: {}",
            known.join(", ")
        )));
    }
    let words = add.command.iter().chain(&add.read_paths);
    if words.clone().any(|word| word.chars().any(char::is_control)) {
        return Err(wrong("values must not hold control characters"));
    }
    let config = context.load_config()?;
    if config.settings.agents.contains_key(name) {
        let message = format!("there is an agent {name:?} already");
        return Err(Failure::new(Exit::Conflict, message)
            .hint(format!("change [agents.{name}] in {}", config.file.display())));
    }
    let section = (format!("agents.{name}"), section(add));
    settings_file::append(context, (&section.0, &section.1), |_| Ok(()))?;
    output::note(&format!("see whether it answers: skein agent test {name}"));
    Ok(())
}

fn section(add: &AgentAdd) -> String {
    let list = |words: &[String]| {
        let words: Vec<_> = words.iter().map(|word| settings_file::quoted(word)).collect();
        format!("[{}]", words.join(", "))
    };
    let mut section = "runtime = \"acp\"\n".to_owned();
    let values = [
        ("command", (!add.command.is_empty()).then(|| list(&add.command))),
        ("permissions", add.permissions.as_deref().map(settings_file::quoted)),
        ("read_paths", (!add.read_paths.is_empty()).then(|| list(&add.read_paths))),
        ("home", add.user_home.then(|| settings_file::quoted("user"))),
    ];
    for (key, value) in values {
        if let Some(value) = value {
            section.push_str(&format!("{key} = {value}\n"));
        }
    }
    section
}

async fn test(context: &Context, name: &str) -> Result<(), Failure> {
    let config = context.load_config()?;
    let agent = configured(&config, name)?;
    let settings = acp::settings(&context.home, &config, (name, &agent))?;
    context.home.prepare()?;
    let trial = context.home.path().join(format!("trial-{}", std::process::id()));
    let refused = |error: std::io::Error| {
        Failure::new(Exit::Unavailable, format!("cannot use {}", trial.display())).because(error)
    };
    let (workspace, home) = (trial.join("repository"), trial.join("home"));
    std::fs::create_dir_all(&workspace).map_err(refused)?;
    std::fs::create_dir_all(&home).map_err(refused)?;
    let workspace = workspace.canonicalize().map_err(refused)?;
    let limit = Duration::from_secs(config.settings.sessions.agent_start_seconds);
    let command = settings.command.join(" ");
    let probed =
        timeout(limit, runtime::probe(settings, &workspace.to_string_lossy(), &home)).await;
    drop(std::fs::remove_dir_all(&trial));
    let unavailable =
        |message: String| Failure::new(Exit::Unavailable, format!("{name}: {message}"));
    let introduced = match probed {
        Ok(Ok(introduced)) => introduced,
        Ok(Err(failure)) => {
            let hint =
                acp::preset(name).map(|preset| format!("install it with: {}", preset.install));
            let failure = unavailable(output::printable(&failure.message));
            return Err(match hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            });
        }
        Err(_) => {
            return Err(unavailable(format!("no session within {} s", limit.as_secs()))
                .hint("raise sessions.agent_start_seconds for agents that need longer"));
        }
    };
    let who = introduced.name.unwrap_or_else(|| command.clone());
    if context.format == Format::Json {
        let body = json!({
            "agent": name, "name": who, "abilities": introduced.abilities,
            "confinementMissing": introduced.shortcomings,
        });
        return output::line(&body.to_string());
    }
    output::line(&format!("{name} answers: {}", output::printable(&who)))?;
    let abilities = match introduced.abilities.is_empty() {
        true => "nothing: its sessions begin anew after a restart".to_owned(),
        false => introduced.abilities.join(", "),
    };
    output::line(&format!("takes its sessions up again with: {abilities}"))?;
    for missing in introduced.shortcomings {
        output::note(&format!("not confined as it should be: {missing}"));
    }
    Ok(())
}

/// Its settings, or those that its name stands for.
fn configured(config: &Config, name: &str) -> Result<AgentSettings, Failure> {
    let agent = config.settings.agents.get(name).cloned().unwrap_or_default();
    match agent.runtime_of(name) {
        Some(Runtime::Acp) => Ok(agent),
        Some(_) => Err(Failure::new(Exit::Usage, format!("{name} has no process to start"))
            .hint("skein provider test NAME tries a provider")),
        None => Err(Failure::new(Exit::NotFound, format!("there is no agent {name:?}"))
            .hint("skein agent list shows those that are set, skein agent add adds one")),
    }
}
