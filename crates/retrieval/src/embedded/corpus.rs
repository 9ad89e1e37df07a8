//! A repository or an org's documents, as the index knows it.

use rusqlite::{Connection, OptionalExtension, params};
use skein_core::{
    model::{OrgId, RepoId, Timestamp},
    ports::{IndexState, IndexStatus},
};

/// Whose corpus it is. Every look-up takes one, so that none crosses tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    Repo(OrgId, RepoId),
    Documents(OrgId),
}

impl Subject {
    pub(super) const fn org(&self) -> &[u8; 16] {
        match self {
            Self::Repo(org, _) | Self::Documents(org) => org.as_uuid().as_bytes(),
        }
    }

    const fn key(&self) -> (&'static str, &[u8; 16]) {
        match self {
            Self::Repo(_, repo) => ("repo", repo.as_uuid().as_bytes()),
            Self::Documents(org) => ("documents", org.as_uuid().as_bytes()),
        }
    }
}

/// A corpus's row.
#[derive(Debug, Clone)]
pub(super) struct Corpus {
    pub id: i64,
    /// The generation that searches see. 0 for a repository that no run has finished.
    pub visible: i64,
    pub files: u64,
    pub chunks: u64,
    commit: Option<String>,
    skipped: String,
    updated_at: Option<i64>,
    error: Option<String>,
    pub note: Option<String>,
    pub is_of_commit: bool,
}

impl Corpus {
    pub(super) fn find(db: &Connection, subject: &Subject) -> rusqlite::Result<Option<Self>> {
        let (kind, key) = subject.key();
        let mut statement = db.prepare_cached(
            "SELECT id, visible, files, chunks, commit_id, skipped, updated_at, error, note, is_of_commit FROM corpora
             WHERE org_id = ?1 AND kind = ?2 AND subject = ?3 AND is_removed = 0",
        )?;
        let row = statement.query_row(params![subject.org(), kind, key], |row| {
            Ok(Self {
                id: row.get(0)?,
                visible: row.get(1)?,
                files: row.get::<_, i64>(2)?.cast_unsigned(),
                chunks: row.get::<_, i64>(3)?.cast_unsigned(),
                commit: row.get(4)?,
                skipped: row.get(5)?,
                updated_at: row.get(6)?,
                error: row.get(7)?,
                note: row.get(8)?,
                is_of_commit: row.get(9)?,
            })
        });
        row.optional()
    }

    pub(super) fn find_or_create(db: &mut Connection, subject: &Subject) -> rusqlite::Result<Self> {
        if let Some(corpus) = Self::find(db, subject)? {
            return Ok(corpus);
        }
        let (kind, key) = subject.key();
        let transaction = db.transaction()?;
        transaction.execute(
            "INSERT INTO corpora (org_id, kind, subject) VALUES (?1, ?2, ?3)",
            params![subject.org(), kind, key],
        )?;
        let id = transaction.last_insert_rowid();
        transaction.execute_batch(&format!(
            "CREATE VIRTUAL TABLE fts_{id} USING fts5(
                 scope, symbol, path, text, content = '', contentless_delete = 1,
                 tokenize = 'ascii', detail = 'full');
             CREATE VIRTUAL TABLE vocab_{id} USING fts5vocab('fts_{id}', 'row');"
        ))?;
        transaction.commit()?;
        Self::find(db, subject)?.ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    /// What callers are told. `is_busy`: a run is going on.
    pub(super) fn status(self, is_busy: bool) -> IndexStatus {
        let state = match (is_busy, &self.error, self.visible) {
            (true, ..) => IndexState::Indexing,
            (false, Some(_), _) => IndexState::Failed,
            (false, None, 0) => IndexState::Idle,
            (false, None, _) => IndexState::Ready,
        };
        IndexStatus {
            state,
            files: self.files,
            chunks: self.chunks,
            skipped: serde_json::from_str(&self.skipped).unwrap_or_default(),
            updated_at: self.updated_at.map(Timestamp::from_millis),
            error: self.error.or(self.note),
            commit: self.commit,
        }
    }
}

/// Remembers why the last run failed, or that it did not.
pub(super) fn set_error(db: &Connection, corpus: i64, error: Option<&str>) -> rusqlite::Result<()> {
    db.execute("UPDATE corpora SET error = ?2 WHERE id = ?1", params![corpus, error])?;
    Ok(())
}

/// Remembers what is missing from an index that can be used, e.g. embeddings.
pub(super) fn set_note(db: &Connection, corpus: i64, note: Option<&str>) -> rusqlite::Result<()> {
    db.execute("UPDATE corpora SET note = ?2 WHERE id = ?1", params![corpus, note])?;
    Ok(())
}
