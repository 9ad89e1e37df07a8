//! Runs the migrations of the PostgreSQL schema, as the owner of its tables.

use skein_core::{
    model::{Sha256Hash, Timestamp},
    ports::Clock,
};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

use super::rows::{millis, moment};
use crate::migrations::{
    self, AppliedMigration, MigrateError, Migration, MigrationStatus, migrations,
};

/// Every step of the schema, oldest first.
pub const MIGRATIONS: &[Migration] = migrations!("postgres": 1 = "0001_init", 2 = "0002_tenants", 3 = "0003_plans", 4 = "0004_documents", 5 = "0005_residents", 6 = "0006_asked", 7 = "0007_configured_conversations");

/// Two programs that migrate at once take turns by this lock.
const LOCK: i64 = 0x736b_6569_6e00;

const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   bytea NOT NULL,
    applied_at timestamptz(3) NOT NULL
)";

/// Where each step stands in this database.
pub async fn status(owner_url: &str) -> Result<Vec<MigrationStatus>, MigrateError> {
    let owner = Owner::connect(owner_url).await?;
    Ok(migrations::status(MIGRATIONS, &applied(&owner.client).await?))
}

/// Makes every missing step, lets `app_role` use the tables, and returns the steps it made.
pub async fn up(
    owner_url: &str,
    app_role: &str,
    clock: &dyn Clock,
) -> Result<Vec<&'static Migration>, MigrateError> {
    let mut owner = Owner::connect(owner_url).await?;
    let plan = migrations::plan_up(MIGRATIONS, &applied(&owner.client).await?)?;
    for migration in &plan {
        owner.make(migration, clock).await?;
    }
    owner.client.batch_execute(&grants(app_role)).await.map_err(engine)?;
    Ok(plan)
}

/// Takes back every step above `target`, newest first, and returns those it took back.
pub async fn down(owner_url: &str, target: u32) -> Result<Vec<&'static Migration>, MigrateError> {
    let mut owner = Owner::connect(owner_url).await?;
    let plan = migrations::plan_down(MIGRATIONS, &applied(&owner.client).await?, target)?;
    for migration in &plan {
        owner.take_back(migration).await?;
    }
    Ok(plan)
}

/// Refuses a database whose schema is not exactly the one this program was written for.
pub(super) async fn verify_current(client: &Client) -> Result<(), MigrateError> {
    migrations::verify_current(MIGRATIONS, &applied(client).await?)
}

/// A connection of its own: the lock below is held by it and ends with it.
struct Owner {
    client: Client,
    /// Drives the connection; dropped with it.
    _driver: JoinSet<()>,
}

impl Owner {
    async fn connect(url: &str) -> Result<Self, MigrateError> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(engine)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            if let Err(error) = connection.await {
                tracing::warn!(%error, "the connection for migrations broke");
            }
        });
        client.execute("SELECT pg_advisory_lock($1)", &[&LOCK]).await.map_err(engine)?;
        Ok(Self { client, _driver: driver })
    }

    /// The change and its record in one transaction: a kill leaves the old schema or the new one.
    async fn make(&mut self, migration: &Migration, clock: &dyn Clock) -> Result<(), MigrateError> {
        let transaction = self.client.transaction().await.map_err(engine)?;
        transaction.batch_execute(CREATE_TABLE).await.map_err(engine)?;
        transaction.batch_execute(migration.up).await.map_err(engine)?;
        transaction
            .execute(
                "INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES ($1, $2, $3, $4)",
                &[
                    &i32::try_from(migration.version).unwrap_or(i32::MAX),
                    &migration.name,
                    &migration.checksum().as_bytes().as_slice(),
                    &moment(clock.now()),
                ],
            )
            .await
            .map_err(engine)?;
        transaction.commit().await.map_err(engine)
    }

    async fn take_back(&mut self, migration: &Migration) -> Result<(), MigrateError> {
        let transaction = self.client.transaction().await.map_err(engine)?;
        transaction.batch_execute(migration.down).await.map_err(engine)?;
        let version = i32::try_from(migration.version).unwrap_or(i32::MAX);
        transaction
            .execute("DELETE FROM schema_migrations WHERE version = $1", &[&version])
            .await
            .map_err(engine)?;
        transaction.commit().await.map_err(engine)
    }
}

/// What the application may do. Events, audit rows and versions can be added and read; row-level security keeps the
/// contexts of the instance, which have no org, from being written.
fn grants(app_role: &str) -> String {
    let role = format!("\"{}\"", app_role.replace('"', "\"\""));
    format!(
        "GRANT USAGE ON SCHEMA public TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};
         REVOKE UPDATE, DELETE ON events, audit, orgs FROM {role};
         REVOKE INSERT, UPDATE, DELETE ON schema_migrations FROM {role};
         REVOKE UPDATE, DELETE
             ON agent_contexts, agent_context_versions, conversation_context_versions FROM {role};
         GRANT UPDATE (current_version) ON agent_contexts TO {role};
         GRANT UPDATE (chain_no, chain_hash) ON audit TO {role};
         GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO {role};"
    )
}

async fn applied(client: &Client) -> Result<Vec<AppliedMigration>, MigrateError> {
    let table = client
        .query_one("SELECT to_regclass('public.schema_migrations') IS NOT NULL", &[])
        .await
        .map_err(engine)?;
    if !table.try_get::<_, bool>(0).map_err(engine)? {
        return Ok(Vec::new());
    }
    let rows = client
        .query(
            "SELECT version, name, checksum, applied_at FROM schema_migrations ORDER BY version",
            &[],
        )
        .await
        .map_err(engine)?;
    rows.iter()
        .map(|row| {
            let version: i32 = row.try_get(0).map_err(engine)?;
            let checksum: Vec<u8> = row.try_get(2).map_err(engine)?;
            Ok(AppliedMigration {
                version: u32::try_from(version).map_err(engine)?,
                name: row.try_get(1).map_err(engine)?,
                checksum: Sha256Hash::from_bytes(checksum.try_into().unwrap_or_default()),
                applied_at: Timestamp::from_millis(millis(row.try_get(3).map_err(engine)?)),
            })
        })
        .collect()
}

fn engine(error: impl std::error::Error + Send + Sync + 'static) -> MigrateError {
    MigrateError::Engine(Box::new(error))
}
