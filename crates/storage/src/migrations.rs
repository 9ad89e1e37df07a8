//! Which schema changes there are, which were made, and which may follow. Engines run them, one transaction each.

use sha2::{Digest, Sha256};
use skein_core::model::{Sha256Hash, Timestamp};

/// One step of the schema, with the way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    pub version: u32,
    pub name: &'static str,
    pub up: &'static str,
    pub down: &'static str,
}

/// A step that the database says was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedMigration {
    pub version: u32,
    pub name: String,
    pub checksum: Sha256Hash,
    pub applied_at: Timestamp,
}

/// Where a step stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationStatus {
    pub version: u32,
    pub name: String,
    /// None while the step waits.
    pub applied_at: Option<Timestamp>,
}

/// Why the schema cannot be used or changed.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error("the database has schema version {found}, and this program knows only {known}")]
    NewerSchema { found: u32, known: u32 },
    #[error("migration {version} ({name}) is not the one that was applied to this database")]
    ChangedMigration { version: u32, name: String },
    #[error("migration {version} was applied, but {missing} before it was not")]
    Gap { version: u32, missing: u32 },
    #[error("the schema is at version {found} and must be at {known}; run `skein migrate up`")]
    Pending { found: u32, known: u32 },
    #[error("there is no schema version {target}; the newest is {known}")]
    UnknownTarget { target: u32, known: u32 },
    #[error("the database refused the change")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Migration {
    /// Over both ways, each with its length, so that neither can change unnoticed.
    pub fn checksum(&self) -> Sha256Hash {
        let mut hasher = Sha256::new();
        for text in [self.name, self.up, self.down] {
            hasher.update((text.len() as u64).to_be_bytes());
            hasher.update(text);
        }
        Sha256Hash::from_bytes(hasher.finalize().into())
    }
}

/// The version of a program that knows these migrations.
pub fn newest(known: &[Migration]) -> u32 {
    known.last().map_or(0, |migration| migration.version)
}

/// The version of a database in which these were made.
pub fn current(applied: &[AppliedMigration]) -> u32 {
    applied.last().map_or(0, |migration| migration.version)
}

/// Checks that what was made is a beginning of what is known. `applied` is in order of version.
pub fn verify(known: &[Migration], applied: &[AppliedMigration]) -> Result<(), MigrateError> {
    let (found, newest) = (current(applied), newest(known));
    if found > newest {
        return Err(MigrateError::NewerSchema { found, known: newest });
    }
    for (migration, made) in known.iter().zip(applied) {
        if made.version != migration.version {
            let (version, missing) = (made.version, migration.version);
            return Err(MigrateError::Gap { version, missing });
        }
        if made.checksum != migration.checksum() {
            let (version, name) = (made.version, made.name.clone());
            return Err(MigrateError::ChangedMigration { version, name });
        }
    }
    Ok(())
}

/// Refuses a database that is not exactly at the newest version.
pub fn verify_current(
    known: &[Migration],
    applied: &[AppliedMigration],
) -> Result<(), MigrateError> {
    verify(known, applied)?;
    let (found, known) = (current(applied), newest(known));
    if found == known { Ok(()) } else { Err(MigrateError::Pending { found, known }) }
}

/// The steps still to make, in order.
pub fn plan_up<'a>(
    known: &'a [Migration],
    applied: &[AppliedMigration],
) -> Result<Vec<&'a Migration>, MigrateError> {
    verify(known, applied)?;
    let current = current(applied);
    Ok(known.iter().filter(|migration| migration.version > current).collect())
}

/// The steps to take back until `target` is the newest that is left, newest first. 0 takes back all.
pub fn plan_down<'a>(
    known: &'a [Migration],
    applied: &[AppliedMigration],
    target: u32,
) -> Result<Vec<&'a Migration>, MigrateError> {
    verify(known, applied)?;
    if target > newest(known) {
        return Err(MigrateError::UnknownTarget { target, known: newest(known) });
    }
    let current = current(applied);
    let to_undo = |migration: &&Migration| (target + 1..=current).contains(&migration.version);
    Ok(known.iter().filter(to_undo).rev().collect())
}

/// Every known step, and what a newer program made beyond them.
pub fn status(known: &[Migration], applied: &[AppliedMigration]) -> Vec<MigrationStatus> {
    let made_at =
        |version| applied.iter().find(|made| made.version == version).map(|made| made.applied_at);
    let known_steps = known.iter().map(|migration| MigrationStatus {
        version: migration.version,
        name: migration.name.to_owned(),
        applied_at: made_at(migration.version),
    });
    let newer =
        applied.iter().filter(|made| made.version > newest(known)).map(|made| MigrationStatus {
            version: made.version,
            name: made.name.clone(),
            applied_at: Some(made.applied_at),
        });
    known_steps.chain(newer).collect()
}

/// Embeds `migrations/<engine>/NNNN_name.up.sql` and `.down.sql`.
macro_rules! migrations {
    ($engine:literal: $($version:literal = $name:literal),+ $(,)?) => {
        &[$($crate::migrations::Migration {
            version: $version,
            name: $name,
            up: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"), "/migrations/", $engine, "/", $name, ".up.sql"
            )),
            down: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"), "/migrations/", $engine, "/", $name, ".down.sql"
            )),
        }),+]
    };
}
pub(crate) use migrations;

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Migration] = &[
        Migration { version: 1, name: "0001_a", up: "a", down: "-a" },
        Migration { version: 2, name: "0002_b", up: "b", down: "-b" },
        Migration { version: 3, name: "0003_c", up: "c", down: "-c" },
    ];

    fn applied(migrations: &[Migration]) -> Vec<AppliedMigration> {
        migrations
            .iter()
            .map(|migration| AppliedMigration {
                version: migration.version,
                name: migration.name.to_owned(),
                checksum: migration.checksum(),
                applied_at: Timestamp::from_millis(7),
            })
            .collect()
    }

    fn versions(plan: Vec<&Migration>) -> Vec<u32> {
        plan.iter().map(|migration| migration.version).collect()
    }

    #[test]
    fn only_what_is_missing_is_made_and_the_newest_is_taken_back_first() {
        let two = applied(&KNOWN[..2]);

        assert_eq!(versions(plan_up(KNOWN, &two).unwrap()), [3]);
        assert_eq!(versions(plan_down(KNOWN, &two, 0).unwrap()), [2, 1]);
        assert_eq!(versions(plan_down(KNOWN, &two, 1).unwrap()), [2]);
        assert!(plan_down(KNOWN, &two, 3).unwrap().is_empty());
    }

    #[test]
    fn a_program_refuses_a_schema_that_is_newer_changed_or_has_a_hole() {
        let mut changed = applied(KNOWN);
        changed[1].checksum = Sha256Hash::of(b"other");
        let mut hole = applied(KNOWN);
        hole.remove(1);

        let errors = [
            verify(&KNOWN[..2], &applied(KNOWN)),
            verify(KNOWN, &changed),
            verify(KNOWN, &hole),
            verify_current(KNOWN, &applied(&KNOWN[..2])),
            plan_down(KNOWN, &applied(KNOWN), 9).map(|_| ()),
        ]
        .map(|result| result.unwrap_err().to_string());

        assert_eq!(
            errors,
            [
                "the database has schema version 3, and this program knows only 2",
                "migration 2 (0002_b) is not the one that was applied to this database",
                "migration 3 was applied, but 2 before it was not",
                "the schema is at version 2 and must be at 3; run `skein migrate up`",
                "there is no schema version 9; the newest is 3",
            ]
        );
    }
}
