//! Connections with the product's settings, on a store that the product has made.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, config::DbConfig, params};

pub(super) const ORG: [u8; 16] = [1; 16];
pub(super) const USER: [u8; 16] = [2; 16];
pub(super) const AGENT: [u8; 16] = [3; 16];

pub(super) fn open_writer(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    keep_plans(&connection)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", 4 * 1024 * 1024)?;
    connection.pragma_update(None, "cache_size", -4_096)?;
    connection.set_prepared_statement_cache_capacity(96);
    connection.execute_batch("BEGIN IMMEDIATE")?;
    connection.execute("INSERT INTO orgs (id, name) VALUES (?1, 'limit')", params![ORG])?;
    connection.execute(
        "INSERT INTO users (org_id, id, name, role, instance_owner)
         VALUES (?1, ?2, 'owner', 'owner', 1)",
        params![ORG, USER],
    )?;
    connection.execute(
        "INSERT INTO agent_contexts (id, name, origin, current_version)
         VALUES (?1, 'limit', 'config', 1)",
        params![AGENT],
    )?;
    connection.execute_batch("COMMIT")?;
    Ok(connection)
}

pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    keep_plans(&connection)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -1_024)?;
    Ok(connection)
}

pub(super) fn open_checkpointer(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "cache_size", -64)?;
    Ok(connection)
}

/// Without this, SQLite compiles a statement anew each time that a value is bound which a partial index might care
/// about.
fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}
