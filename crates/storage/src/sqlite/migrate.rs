//! Runs the migrations of the SQLite schema.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use skein_core::{
    model::{Sha256Hash, Timestamp},
    ports::Clock,
};

use super::connection::open_writer;
use crate::migrations::{
    self, AppliedMigration, MigrateError, Migration, MigrationStatus, migrations,
};

/// Every step of the schema, oldest first.
pub const MIGRATIONS: &[Migration] = migrations!("sqlite": 1 = "0001_init", 2 = "0002_tenants", 3 = "0003_plans", 4 = "0004_documents", 5 = "0005_residents", 6 = "0006_asked", 7 = "0007_configured_conversations");

/// Where each step stands in this file. A file that does not exist is made, empty.
pub fn status(path: &Path) -> Result<Vec<MigrationStatus>, MigrateError> {
    let connection = open_writer(path).map_err(engine)?;
    Ok(migrations::status(MIGRATIONS, &applied(&connection)?))
}

/// Makes every missing step and returns those it made.
pub fn up(path: &Path, clock: &dyn Clock) -> Result<Vec<&'static Migration>, MigrateError> {
    let mut connection = open_writer(path).map_err(engine)?;
    up_on(&mut connection, MIGRATIONS, clock)
}

/// Takes back every step above `target`, newest first, and returns those it took back.
pub fn down(path: &Path, target: u32) -> Result<Vec<&'static Migration>, MigrateError> {
    let mut connection = open_writer(path).map_err(engine)?;
    down_on(&mut connection, MIGRATIONS, target)
}

/// Refuses a file whose schema is not exactly the one this program was written for.
pub(super) fn verify_current(connection: &Connection) -> Result<(), MigrateError> {
    migrations::verify_current(MIGRATIONS, &applied(connection)?)
}

pub(super) fn up_on<'a>(
    connection: &mut Connection,
    known: &'a [Migration],
    clock: &dyn Clock,
) -> Result<Vec<&'a Migration>, MigrateError> {
    let plan = migrations::plan_up(known, &applied(connection)?)?;
    for migration in &plan {
        step(connection, migration.up, |transaction| {
            transaction.execute_batch(CREATE_TABLE)?;
            transaction.execute(
                "INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES (?1, ?2, ?3, ?4)",
                params![
                    migration.version,
                    migration.name,
                    migration.checksum().as_bytes(),
                    clock.now().as_millis()
                ],
            )
        })?;
    }
    Ok(plan)
}

fn down_on<'a>(
    connection: &mut Connection,
    known: &'a [Migration],
    target: u32,
) -> Result<Vec<&'a Migration>, MigrateError> {
    let plan = migrations::plan_down(known, &applied(connection)?, target)?;
    for migration in &plan {
        step(connection, migration.down, |transaction| {
            transaction
                .execute("DELETE FROM schema_migrations WHERE version = ?1", [migration.version])
        })?;
    }
    Ok(plan)
}

const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    checksum   BLOB NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT";

/// The change and its record in one transaction: a kill leaves the old schema or the new one.
fn step(
    connection: &mut Connection,
    sql: &str,
    record: impl FnOnce(&Connection) -> rusqlite::Result<usize>,
) -> Result<(), MigrateError> {
    // A table that others refer to can only be rebuilt without the checks, so they are made at the end.
    connection.pragma_update(None, "foreign_keys", false).map_err(engine)?;
    let result = (|| {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(sql)?;
        record(&transaction)?;
        transaction.prepare("PRAGMA foreign_key_check")?.query_map([], |_| Ok(()))?.next().map_or(
            Ok(()),
            |_| {
                Err(rusqlite::Error::ToSqlConversionFailure(
                    "rows would refer to rows that are not there".into(),
                ))
            },
        )?;
        transaction.commit()
    })();
    connection.pragma_update(None, "foreign_keys", true).map_err(engine)?;
    result.map_err(engine)
}

fn applied(connection: &Connection) -> Result<Vec<AppliedMigration>, MigrateError> {
    let read = || {
        let exists = connection
            .query_row("SELECT 1 FROM sqlite_schema WHERE name = 'schema_migrations'", [], |_| {
                Ok(())
            })
            .optional()?;
        if exists.is_none() {
            return Ok(Vec::new());
        }
        connection
            .prepare(
                "SELECT version, name, checksum, applied_at FROM schema_migrations ORDER BY version",
            )?
            .query_map([], |row| {
                Ok(AppliedMigration {
                    version: row.get(0)?,
                    name: row.get(1)?,
                    checksum: Sha256Hash::from_bytes(row.get(2)?),
                    applied_at: Timestamp::from_millis(row.get(3)?),
                })
            })?
            .collect::<rusqlite::Result<Vec<_>>>()
    };
    read().map_err(engine)
}

fn engine(error: rusqlite::Error) -> MigrateError {
    MigrateError::Engine(Box::new(error))
}
