-- What turns gave to their agents, what the chains of logs hold, and the tokens that were used.
-- turn_chunks and chain_items take another shape; nothing was ever written to them.

ALTER TABLE turns ADD COLUMN temperature REAL;
ALTER TABLE turns ADD COLUMN inputs_payload BLOB;
ALTER TABLE turns ADD COLUMN bundle_payload BLOB;
ALTER TABLE turns ADD COLUMN chunk_count INTEGER NOT NULL DEFAULT 0;

CREATE TABLE turn_plans (
    org_id  BLOB NOT NULL,
    turn_id BLOB NOT NULL,
    data    BLOB NOT NULL,
    PRIMARY KEY (org_id, turn_id),
    FOREIGN KEY (org_id, turn_id) REFERENCES turns (org_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

DROP TABLE turn_chunks;
CREATE TABLE turn_chunks (
    org_id     BLOB NOT NULL,
    turn_id    BLOB NOT NULL,
    ord        INTEGER NOT NULL,
    chunk_id   TEXT NOT NULL,
    path       TEXT NOT NULL,
    start_line INTEGER NOT NULL,
    end_line   INTEGER NOT NULL,
    sha256     BLOB NOT NULL,
    size       INTEGER NOT NULL,
    score      REAL NOT NULL,
    fate       TEXT NOT NULL,
    reason     TEXT NOT NULL,
    PRIMARY KEY (org_id, turn_id, ord),
    FOREIGN KEY (org_id, turn_id) REFERENCES turns (org_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- The live chain of a log. last_ord counts the items that were ever sent.
CREATE TABLE chains (
    org_id        BLOB NOT NULL,
    log_id        BLOB NOT NULL,
    chain_no      INTEGER NOT NULL,
    provider      TEXT NOT NULL,
    model         TEXT,
    response_id   TEXT,
    expires_at    INTEGER,
    tip_turn      BLOB NOT NULL,
    history_bytes INTEGER NOT NULL,
    open_calls    BLOB,
    last_ord      INTEGER NOT NULL,
    PRIMARY KEY (org_id, log_id),
    FOREIGN KEY (org_id, log_id) REFERENCES logs (org_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- What the live chain of a log already holds; the highest ord was sent last.
DROP TABLE chain_items;
CREATE TABLE chain_items (
    org_id        BLOB NOT NULL,
    log_id        BLOB NOT NULL,
    chain_no      INTEGER NOT NULL,
    kind          TEXT NOT NULL,
    ref           TEXT NOT NULL,
    sha256        BLOB NOT NULL,
    size          INTEGER NOT NULL,
    texts_payload BLOB NOT NULL,
    ord           INTEGER NOT NULL,
    PRIMARY KEY (org_id, log_id, chain_no, kind, ref),
    FOREIGN KEY (org_id, log_id) REFERENCES logs (org_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX chain_items_by_ord ON chain_items (org_id, log_id, chain_no, ord);

-- Per org, user and log, and per day since 1970 in UTC.
CREATE TABLE token_usage (
    org_id       BLOB NOT NULL,
    subject_kind TEXT NOT NULL,
    subject_id   BLOB NOT NULL,
    day          INTEGER NOT NULL,
    slot         INTEGER NOT NULL DEFAULT 0,
    tokens       INTEGER NOT NULL,
    PRIMARY KEY (org_id, subject_kind, subject_id, day, slot)
) STRICT, WITHOUT ROWID;
