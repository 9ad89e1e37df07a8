//! An index file that is damaged is moved out of the way: whatever was in it can be made again.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OpenFlags, ffi};

use crate::fault::is_damage;

/// What SQLite keeps beside a file.
const COMPANIONS: [&str; 3] = ["", "-wal", "-shm"];

/// The tables without which nothing can be found.
const NEEDED: [&str; 4] = ["corpora", "files", "chunks", "embeddings"];

/// What a look at an index file shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    Whole,
    /// With what SQLite says of it.
    Damaged(String),
}

/// Reads all of the file and writes nothing.
pub(super) fn examine(path: &Path) -> rusqlite::Result<Condition> {
    let checked = open_to_look(path)
        .and_then(|db| db.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)));
    match checked {
        Ok(answer) if answer == "ok" => Ok(Condition::Whole),
        Ok(answer) => Ok(Condition::Damaged(answer)),
        Err(error) if is_damage(&error) => Ok(Condition::Damaged(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Reads a little of every table, so that it costs the same however large the file is.
pub(super) fn look(db: &Connection) -> rusqlite::Result<()> {
    let mut statement = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
    let names = statement.query_map([], |row| row.get::<_, String>(0))?;
    let names: Vec<String> = names.collect::<rusqlite::Result<_>>()?;
    let is_there = |name: &str| names.iter().any(|known| known == name);
    if !NEEDED.iter().all(|name| is_there(name)) {
        return Err(corrupt());
    }
    for name in names.iter().filter(|name| !is_virtual(name)) {
        let name = name.replace('"', "\"\"");
        has_row(db, &format!("SELECT * FROM \"{name}\" NOT INDEXED LIMIT 1"))?;
    }
    let mut statement = db.prepare("SELECT id, chunks FROM corpora WHERE is_removed = 0")?;
    let corpora = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for corpus in corpora {
        look_into(db, corpus?, &is_there)?;
    }
    Ok(())
}

/// A corpus of passages has tables with rows in them.
fn look_into(
    db: &Connection,
    (id, chunks): (i64, i64),
    is_there: &impl Fn(&str) -> bool,
) -> rusqlite::Result<()> {
    if !is_there(&format!("fts_{id}")) {
        return Err(corrupt());
    }
    has_row(db, &format!("SELECT rowid FROM fts_{id} WHERE fts_{id} MATCH 'a' LIMIT 1"))?;
    let is_filled = chunks == 0
        || has_row(db, "SELECT id FROM files NOT INDEXED LIMIT 1")?
            && has_row(db, "SELECT id FROM chunks NOT INDEXED LIMIT 1")?
            && has_row(db, &format!("SELECT id FROM fts_{id}_docsize LIMIT 1"))?;
    if is_filled { Ok(()) } else { Err(corrupt()) }
}

fn has_row(db: &Connection, sql: &str) -> rusqlite::Result<bool> {
    let mut statement = db.prepare(sql)?;
    let mut rows = statement.query([])?;
    Ok(rows.next()?.is_some())
}

/// Full-text tables and their vocabularies are read through the tables that they are made of.
fn is_virtual(name: &str) -> bool {
    let number = name.strip_prefix("fts_").or_else(|| name.strip_prefix("vocab_"));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Leaves word for the next start, which may not come upon the damage by itself.
pub(super) fn note(path: &Path) {
    let noted = fs::File::options().write(true).create_new(true).open(beside(path, "-unusable"));
    if noted.is_ok() {
        tracing::error!(file = %path.display(), "the index is damaged; the next start makes it anew");
    }
}

pub(super) fn is_noted(path: &Path) -> bool {
    beside(path, "-unusable").exists()
}

/// The file becomes `….damaged`, in place of one that was put there before.
pub(super) fn set_aside(path: &Path) -> io::Result<()> {
    let aside = beside(path, ".damaged");
    for companion in COMPANIONS {
        let to = beside(&aside, companion);
        match fs::rename(beside(path, companion), &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => remove(&to)?,
            done => done?,
        }
    }
    remove(&beside(path, "-unusable"))?;
    tracing::warn!(
        file = %path.display(),
        aside = %aside.display(),
        "the index was damaged and is made anew; `skein index update` fills it"
    );
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// A file that nobody has open has no log; then SQLite need not make one to read it.
fn open_to_look(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if beside(path, "-wal").exists() {
        return Connection::open_with_flags(path, flags);
    }
    let escaped =
        path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let address = format!("file:{escaped}?immutable=1");
    Connection::open_with_flags(address, flags | OpenFlags::SQLITE_OPEN_URI)
}

fn corrupt() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), None)
}
