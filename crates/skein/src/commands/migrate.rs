//! `skein migrate …`: works on the database itself, without a server.

use std::path::PathBuf;

use serde_json::json;
use skein_storage::{
    migrations::{self, MigrateError, Migration, MigrationStatus},
    postgres::migrate as postgres,
    sqlite::migrate as sqlite,
};

use super::{Context, Format};
use crate::{
    cli::MigrateCommand,
    config::Config,
    failure::{Exit, Failure},
    home::Home,
    output,
    system::System,
};

pub(super) async fn run(context: &Context, command: MigrateCommand) -> Result<(), Failure> {
    let schema = Schema::of(&context.home, &context.load_config()?);
    let changed = match command {
        MigrateCommand::Status => Vec::new(),
        MigrateCommand::Up => {
            let _lock = context.home.lock_alone().await?;
            schema.up().await?
        }
        MigrateCommand::Down { to } => {
            let _lock = context.home.lock_alone().await?;
            schema.down(to).await?
        }
    };
    print(context, &schema.status().await?, &changed)
}

/// The schema of the store that the settings name.
pub(super) enum Schema {
    Sqlite(PathBuf),
    Postgres {
        /// As the server logs in; enough to look.
        url: String,
        /// The role that is to be let in.
        role: String,
        owner_url: Option<String>,
    },
}

impl Schema {
    pub(super) fn of(home: &Home, config: &Config) -> Self {
        let store = &config.settings.store;
        match store.role().filter(|_| store.is_postgres()) {
            Some(role) => Self::Postgres {
                url: store.url.clone(),
                role,
                owner_url: store.migrate_url.clone(),
            },
            None => Self::Sqlite(home.database_file()),
        }
    }

    /// Where each step stands. A database file that does not exist is not made.
    pub(super) async fn status(&self) -> Result<Vec<MigrationStatus>, Failure> {
        match self {
            Self::Sqlite(path) if path.exists() => sqlite::status(path).map_err(failure),
            Self::Sqlite(_) => Ok(migrations::status(sqlite::MIGRATIONS, &[])),
            Self::Postgres { url, owner_url, .. } => {
                postgres::status(owner_url.as_ref().unwrap_or(url)).await.map_err(failure)
            }
        }
    }

    /// The version that this program wants.
    pub(super) fn newest(&self) -> u32 {
        migrations::newest(match self {
            Self::Sqlite(_) => sqlite::MIGRATIONS,
            Self::Postgres { .. } => postgres::MIGRATIONS,
        })
    }

    async fn up(&self) -> Result<Vec<&'static Migration>, Failure> {
        match self {
            Self::Sqlite(path) => sqlite::up(path, &System).map_err(failure),
            Self::Postgres { role, owner_url, .. } => {
                let owner_url = owner_of(owner_url.as_deref())?;
                postgres::up(owner_url, role, &System).await.map_err(failure)
            }
        }
    }

    async fn down(&self, to: u32) -> Result<Vec<&'static Migration>, Failure> {
        match self {
            Self::Sqlite(path) => sqlite::down(path, to).map_err(failure),
            Self::Postgres { owner_url, .. } => {
                postgres::down(owner_of(owner_url.as_deref())?, to).await.map_err(failure)
            }
        }
    }
}

/// Tables are made and dropped by the role that owns them, which the server must not be.
fn owner_of(owner_url: Option<&str>) -> Result<&str, Failure> {
    owner_url.ok_or_else(|| {
        Failure::new(Exit::Usage, "the owner of the database is not known").hint(
            "set [store] migrate_url or SKEIN_STORE__MIGRATE_URL to postgres://owner@host/database",
        )
    })
}

pub(crate) fn failure(error: MigrateError) -> Failure {
    let exit = match &error {
        MigrateError::NewerSchema { .. }
        | MigrateError::ChangedMigration { .. }
        | MigrateError::Gap { .. }
        | MigrateError::Pending { .. } => Exit::Conflict,
        MigrateError::UnknownTarget { .. } => Exit::Usage,
        MigrateError::Engine(_) => Exit::Unavailable,
    };
    let hint = match &error {
        MigrateError::NewerSchema { known, .. } => Some(format!(
            "use the skein that made it, or let that one go back: skein migrate down --to {known}"
        )),
        MigrateError::ChangedMigration { .. } | MigrateError::Gap { .. } => {
            Some("this database was changed by another build; use that one".to_owned())
        }
        MigrateError::Pending { .. } => Some("skein migrate up makes the missing steps".to_owned()),
        MigrateError::UnknownTarget { .. } | MigrateError::Engine(_) => None,
    };
    let failure = Failure::new(exit, "the schema cannot be used").because(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn print(
    context: &Context,
    status: &[MigrationStatus],
    changed: &[&Migration],
) -> Result<(), Failure> {
    let applied_at = |step: &MigrationStatus| step.applied_at.map(|at| at.to_string());
    match context.format {
        Format::Json => {
            let steps: Vec<_> = status
                .iter()
                .map(|step| {
                    json!({"version": step.version, "name": step.name, "appliedAt": applied_at(step)})
                })
                .collect();
            let changed: Vec<_> = changed.iter().map(|step| step.name).collect();
            output::line(&json!({"migrations": steps, "changed": changed}).to_string())
        }
        Format::Text => {
            let row = |step: &MigrationStatus| {
                let state = applied_at(step).unwrap_or_else(|| "waits".to_owned());
                vec![step.version.to_string(), step.name.clone(), state]
            };
            let rows: Vec<_> = status.iter().map(row).collect();
            output::table(&["version", "name", "applied"], &rows)
        }
    }
}
