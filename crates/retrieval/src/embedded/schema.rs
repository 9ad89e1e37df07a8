//! The index file: how it is opened, and what it holds.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, OpenFlags, config::DbConfig};

use super::damage;
use crate::fault::is_damage;

/// Changes with the tables, with how texts are taken apart and with [`crate::walk::RULES`]. Everything is derived: an
/// index of another format is emptied and made again.
const FORMAT: i64 = 2;

const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// What the writer may hold in memory.
const WRITER_CACHE_KB: i64 = 32 * 1024;
const READER_CACHE_KB: i64 = 8 * 1024;
const WAL_KEPT_BYTES: i64 = 16 * 1024 * 1024;

/// Searched repositories and the documents of an org are corpora. Each has a full-text table of its own, so that what
/// one tenant keeps neither slows down nor weighs on another's searches.
///
/// A file row is visible from generation `from_gen` on, until `to_gen`. A run writes rows of the generation after the
/// visible one; searches see them when the corpus moves on to it.
const TABLES: &str = "
CREATE TABLE corpora (
    id INTEGER PRIMARY KEY,
    org_id BLOB NOT NULL,
    -- A repository's id, or the org's own for its documents.
    subject BLOB NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('repo', 'documents')),
    visible INTEGER NOT NULL DEFAULT 0,
    is_removed INTEGER NOT NULL DEFAULT 0,
    commit_id TEXT,
    -- Whether that commit's tree was indexed, not the work tree.
    is_of_commit INTEGER NOT NULL DEFAULT 0,
    files INTEGER NOT NULL DEFAULT 0,
    chunks INTEGER NOT NULL DEFAULT 0,
    skipped TEXT NOT NULL DEFAULT '{}',
    updated_at INTEGER,
    error TEXT,
    note TEXT
) STRICT;
CREATE UNIQUE INDEX corpora_subject ON corpora (org_id, kind, subject) WHERE is_removed = 0;

CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    org_id BLOB NOT NULL,
    corpus INTEGER NOT NULL,
    path TEXT NOT NULL,
    language TEXT,
    sha256 BLOB NOT NULL,
    chunks INTEGER NOT NULL,
    from_gen INTEGER NOT NULL,
    to_gen INTEGER,
    -- What the file system said, if it can be trusted; and Git's name of the content.
    size INTEGER,
    mtime_ns INTEGER,
    ctime_ns INTEGER,
    inode INTEGER,
    blob TEXT,
    -- Of a document.
    log_id BLOB,
    document_id BLOB
) STRICT;
CREATE INDEX files_path ON files (corpus, path);
CREATE INDEX files_closed ON files (corpus, to_gen) WHERE to_gen IS NOT NULL;
CREATE INDEX files_log ON files (corpus, log_id) WHERE log_id IS NOT NULL;

CREATE TABLE chunks (
    id INTEGER PRIMARY KEY,
    org_id BLOB NOT NULL,
    corpus INTEGER NOT NULL,
    file INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    chunk_id BLOB NOT NULL,
    symbol TEXT,
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX chunks_file ON chunks (file);
CREATE INDEX chunks_corpus ON chunks (corpus);

CREATE TABLE embeddings (
    org_id BLOB NOT NULL,
    model TEXT NOT NULL,
    sha256 BLOB NOT NULL,
    -- One byte a dimension, after the scale as a little-endian f32. Empty: the model does not take the text.
    vector BLOB NOT NULL,
    PRIMARY KEY (org_id, model, sha256)
) STRICT, WITHOUT ROWID;
";

/// What was added without a new format.
const LATER: &str = "
CREATE INDEX IF NOT EXISTS files_document ON files (corpus, document_id) WHERE document_id IS NOT NULL;
";

/// Why the file cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("it is damaged and cannot be moved aside")]
    Stuck(#[source] std::io::Error),
}

/// The one connection that writes. Makes the file, or makes it anew if its format is another or it is damaged.
pub(super) fn open_writer(path: &Path) -> Result<Connection, Unusable> {
    if damage::is_noted(path) {
        damage::set_aside(path).map_err(Unusable::Stuck)?;
    }
    match open_or_make(path) {
        Err(error) if is_damage(&error) => {
            damage::set_aside(path).map_err(Unusable::Stuck)?;
            Ok(open_or_make(path)?)
        }
        done => Ok(done?),
    }
}

fn open_or_make(path: &Path) -> rusqlite::Result<Connection> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
    let format: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if format == FORMAT {
        let connection = configured(connection)?;
        connection.execute_batch(LATER)?;
        damage::look(&connection)?;
        return Ok(connection);
    }
    drop(connection);
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = std::fs::remove_file(name);
    }
    let connection = configured(connect(path, OpenFlags::SQLITE_OPEN_CREATE)?)?;
    connection.execute_batch(&format!(
        "BEGIN; {TABLES} {LATER} PRAGMA user_version = {FORMAT}; COMMIT;"
    ))?;
    Ok(connection)
}

pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection = connect(path, OpenFlags::empty())?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -READER_CACHE_KB)?;
    Ok(connection)
}

fn configured(connection: Connection) -> rusqlite::Result<Connection> {
    connection.pragma_update(None, "page_size", 8_192)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // A power cut may take the last batches, never the file's order; the next run makes them again.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "journal_size_limit", WAL_KEPT_BYTES)?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KB)?;
    Ok(connection)
}

fn connect(path: &Path, extra: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | extra;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Else a statement over a partial index is compiled again whenever a value is bound to it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}
