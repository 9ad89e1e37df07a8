//! `skein migrate …`: works on the database of the home, without a server.

use serde_json::json;
use skein_storage::{
    migrations::{self, MigrateError, Migration, MigrationStatus},
    sqlite::migrate as sqlite,
};

use super::{Context, Format};
use crate::{
    cli::MigrateCommand,
    failure::{Exit, Failure},
    home::Home,
    output,
    system::System,
};

pub(super) async fn run(context: &Context, command: MigrateCommand) -> Result<(), Failure> {
    context.load_config()?;
    let path = context.home.database_file();
    let changed = match command {
        MigrateCommand::Status => Vec::new(),
        MigrateCommand::Up => {
            let _lock = context.home.lock_alone().await?;
            sqlite::up(&path, &System).map_err(failure)?
        }
        MigrateCommand::Down { to } => {
            let _lock = context.home.lock_alone().await?;
            sqlite::down(&path, to).map_err(failure)?
        }
    };
    print(context, &status(&context.home)?, &changed)
}

/// Where each step stands. A database that does not exist is not made.
pub(super) fn status(home: &Home) -> Result<Vec<MigrationStatus>, Failure> {
    let path = home.database_file();
    match path.exists() {
        true => sqlite::status(&path).map_err(failure),
        false => Ok(migrations::status(sqlite::MIGRATIONS, &[])),
    }
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
        MigrateError::Pending { .. }
        | MigrateError::UnknownTarget { .. }
        | MigrateError::Engine(_) => None,
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
