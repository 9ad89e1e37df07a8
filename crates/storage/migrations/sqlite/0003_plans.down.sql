DROP TABLE token_usage;
DROP TABLE chains;

DROP TABLE chain_items;
CREATE TABLE chain_items (
    org_id     BLOB NOT NULL,
    log_id     BLOB NOT NULL,
    chain_no   INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    ref        TEXT NOT NULL,
    sha256     BLOB NOT NULL,
    since_turn INTEGER NOT NULL,
    PRIMARY KEY (org_id, log_id, chain_no, kind, ref),
    FOREIGN KEY (org_id, log_id) REFERENCES logs (org_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

DROP TABLE turn_chunks;
CREATE TABLE turn_chunks (
    org_id       BLOB NOT NULL,
    turn_id      BLOB NOT NULL,
    ord          INTEGER NOT NULL,
    chunk_id     BLOB NOT NULL,
    path         TEXT NOT NULL,
    start_line   INTEGER NOT NULL,
    end_line     INTEGER NOT NULL,
    sha256       BLOB NOT NULL,
    fate         TEXT NOT NULL,
    text_payload BLOB,
    PRIMARY KEY (org_id, turn_id, ord),
    FOREIGN KEY (org_id, turn_id) REFERENCES turns (org_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

DROP TABLE turn_plans;

ALTER TABLE turns DROP COLUMN chunk_count;
ALTER TABLE turns DROP COLUMN bundle_payload;
ALTER TABLE turns DROP COLUMN inputs_payload;
ALTER TABLE turns DROP COLUMN temperature;
