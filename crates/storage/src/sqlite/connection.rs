//! How connections are opened, so that each has the settings its duty needs.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, OpenFlags, config::DbConfig, functions::FunctionFlags};

/// Rows of about 2 KB are usual, and larger pages waste less of their end: 6.7 KB a turn where pages of 4 KB take
/// 7.7 KB. The price is a longer write-ahead log, and commits that are somewhat slower.
pub(super) const PAGE_BYTES: u32 = 8_192;

/// Only another process can make us wait, for example a backup.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The checkpointer may hold the writer while it waits for a reader, so it gives up early and tries again later.
const CHECKPOINT_BUSY_TIMEOUT: Duration = Duration::from_millis(50);

/// After a reset the write-ahead log shrinks to this.
const WAL_KEPT_BYTES: u32 = 4 * 1024 * 1024;

const CACHED_STATEMENTS: usize = 96;

/// The one connection that writes. It makes the file if there is none.
pub(super) fn open_writer(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_CREATE, BUSY_TIMEOUT)?;
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", WAL_KEPT_BYTES)?;
    connection.pragma_update(None, "cache_size", -4_096)?;
    Ok(connection)
}

/// A connection that cannot write.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path, OpenFlags::empty(), BUSY_TIMEOUT)?;
    connection.pragma_update(None, "query_only", true)?;
    add_contains_folded(&connection)?;
    connection.pragma_update(None, "cache_size", -1_024)?;
    Ok(connection)
}

/// A connection that moves the write-ahead log into the database file.
pub(super) fn open_checkpointer(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path, OpenFlags::empty(), CHECKPOINT_BUSY_TIMEOUT)?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "cache_size", -64)?;
    Ok(connection)
}

fn open(path: &Path, extra: OpenFlags, busy_timeout: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | extra;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(busy_timeout)?;
    // Else a statement over a partial index is compiled again whenever a value is bound to it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    Ok(connection)
}

/// `contains_folded(text, part)`: SQLite itself folds the case of ASCII only. `part` is folded already.
fn add_contains_folded(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("contains_folded", 2, flags, |context| {
        let text = context.get_raw(0).as_str_or_null()?;
        let part = context.get_raw(1).as_str()?;
        Ok(text.is_some_and(|text| text.to_lowercase().contains(part)))
    })
}
