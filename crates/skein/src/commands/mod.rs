//! One module per command. Each is a client of the REST API, except those that work on the home itself.

mod active_files;
mod agent;
mod apply;
mod ask;
mod audit;
mod completions;
mod config;
pub(crate) mod confine;
mod doctor;
mod follow;
mod ids;
mod index;
mod interrupt;
mod migrate;
mod org;
mod permit;
mod place;
mod printer;
mod provider;
mod questions;
mod recent;
mod registered;
mod repo;
mod serve;
mod session;
mod settings_file;
mod token;
mod turn;
mod turn_context;
mod up;
mod user;
mod watch;

use crate::{
    cli::{Cli, Command, Global, TurnCommand},
    config::{Config, Environment, Flags},
    failure::{Exit, Failure},
    home::Home,
    output, telemetry,
    transport::{Answer, Client},
};
pub(crate) use migrate::failure as migrate_failure;

/// What every command knows.
pub(crate) struct Context {
    pub(crate) home: Home,
    pub(crate) environment: Environment,
    pub(crate) format: Format,
}

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

impl Context {
    fn new(global: &Global) -> Result<Self, Failure> {
        Ok(Self {
            home: Home::locate(global.home.as_deref())?,
            environment: Environment::of_process(),
            format: if global.json { Format::Json } else { Format::Text },
        })
    }

    /// The settings in force, fit to work with.
    pub(crate) fn load_config(&self) -> Result<Config, Failure> {
        self.load_config_with(&Flags::default())
    }

    fn load_config_with(&self, flags: &Flags) -> Result<Config, Failure> {
        let config = Config::load(self.home.path(), &self.environment, flags)?;
        config.check()?;
        Ok(config)
    }

    /// What is shown to the server: `SKEIN_TOKEN`, else what is in the token file.
    pub(crate) fn token(&self) -> Result<String, Failure> {
        if let Some(token) = self.environment.get("SKEIN_TOKEN") {
            return Ok(token.to_owned());
        }
        let file = self.home.token_file();
        match self.home.read_token() {
            Ok(Some(token)) => Ok(token),
            Ok(None) => Err(Failure::new(Exit::Auth, format!("{} holds no token", file.display()))
                .hint("set SKEIN_TOKEN, or restart the server: it leaves a new one there")),
            Err(error) => Err(Failure::new(Exit::Auth, format!("cannot read {}", file.display()))
                .because(error)
                .hint("set SKEIN_TOKEN, or run this as the user who owns the home")),
        }
    }

    /// For commands of a moment: their own words are enough unless something is wrong.
    pub(crate) fn start_quiet_log(&self, config: &Config) -> Result<(), Failure> {
        telemetry::start(
            &config.settings,
            Some(self.environment.get("SKEIN_LOG").unwrap_or("warn")),
        )
    }

    /// Prints an answer: as it came, or as the given text.
    fn print(
        &self,
        answer: &Answer,
        text: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Json => {
                output::data(&answer.raw)?;
                output::data(b"\n")
            }
            Format::Text => text(),
        }
    }
}

/// Runs the command that was asked for.
pub(crate) async fn run(cli: Cli) -> Result<(), Failure> {
    let context = Context::new(&cli.global)?;
    match cli.command.unwrap_or(Command::Up(crate::cli::Listen::default())) {
        Command::Up(listen) => serve::run(&context, listen, serve::Greeting::Welcome).await,
        Command::Serve(listen) => serve::run(&context, listen, serve::Greeting::Short).await,
        // These cancel the turn that they began.
        Command::Ask(ask) => ask::run(&context, *ask).await,
        Command::Turn(TurnCommand::Rerun(rerun)) => turn::rerun::run(&context, rerun).await,
        other => tokio::select! {
            result = run_to_end(&context, other) => result,
            _ = tokio::signal::ctrl_c() => Err(Failure::interrupted()),
        },
    }
}

async fn run_to_end(context: &Context, command: Command) -> Result<(), Failure> {
    match command {
        Command::Session(command) => session::run(context, command).await,
        Command::ListSessions(list) => session::list(context, list).await,
        Command::Turn(command) => turn::run(context, command).await,
        Command::Agent(command) => agent::run(context, command).await,
        Command::Provider(command) => provider::run(context, command).await,
        Command::Token(command) => token::run(context, command).await,
        Command::Repo(command) => repo::run(context, command).await,
        Command::Index(command) => index::run(context, command).await,
        Command::User(command) => user::run(context, command).await,
        Command::Org(command) => org::run(context, command).await,
        Command::Audit(command) => audit::run(context, command).await,
        Command::Migrate(command) => migrate::run(context, command).await,
        Command::Doctor => doctor::run(context).await,
        Command::Config(command) => config::run(context, &command),
        Command::Completions { shell } => completions::run(shell),
        Command::Openapi => output::line(&skein_server::openapi_json()),
        Command::Reference => output::data(crate::cli::reference().as_bytes()),
        // Handled before, because they end by signals of their own.
        Command::Up(_) | Command::Serve(_) | Command::Ask(_) | Command::Confine { .. } => Ok(()),
    }
}

/// Connects, works, and leaves nothing behind.
async fn with_client<T>(
    context: &Context,
    work: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let client = Client::connect(context).await?;
    let result = work(&client).await;
    client.close().await;
    result
}

/// Says how to go on when there is another page.
fn more(page: &serde_json::Value) {
    if let Some(cursor) = page["nextCursor"].as_str() {
        output::aside(&format!("go on with --cursor {cursor}"));
    }
}

/// A text field of an answer, or nothing.
fn text<'a>(value: &'a serde_json::Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
