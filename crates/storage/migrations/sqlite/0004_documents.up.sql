-- Texts that were uploaded to sessions. They belong to a log, so that forks see them too.
CREATE TABLE documents (
    org_id     BLOB NOT NULL,
    id         BLOB NOT NULL,
    log_id     BLOB NOT NULL,
    name       TEXT NOT NULL,
    media_type TEXT NOT NULL,
    payload_id BLOB NOT NULL,
    size       INTEGER NOT NULL,
    created_by BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, log_id) REFERENCES logs (org_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX documents_by_log ON documents (org_id, log_id, id);
