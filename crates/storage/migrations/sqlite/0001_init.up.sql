-- Ids are UUIDs of 16 bytes, times are milliseconds since 1970, and a BLOB of data begins with its codec's mark.

CREATE TABLE nodes (
    id           BLOB NOT NULL PRIMARY KEY,
    boot_id      BLOB NOT NULL,
    url          TEXT,
    heartbeat_at INTEGER NOT NULL,
    fence        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE orgs (
    id          BLOB NOT NULL PRIMARY KEY,
    name        TEXT NOT NULL,
    data_key_id BLOB,
    deleted_at  INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX orgs_by_name ON orgs (name);

CREATE TABLE users (
    org_id         BLOB NOT NULL REFERENCES orgs (id),
    id             BLOB NOT NULL,
    name           TEXT NOT NULL,
    role           TEXT NOT NULL,
    instance_owner INTEGER NOT NULL,
    disabled_at    INTEGER,
    PRIMARY KEY (org_id, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX users_by_name ON users (org_id, name);
CREATE INDEX users_instance_owner ON users (id) WHERE instance_owner = 1;

CREATE TABLE tokens (
    id         BLOB NOT NULL PRIMARY KEY,
    org_id     BLOB NOT NULL,
    user_id    BLOB NOT NULL,
    name       TEXT NOT NULL,
    hash       BLOB NOT NULL UNIQUE,
    role       TEXT NOT NULL,
    session_id BLOB,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    FOREIGN KEY (org_id, user_id) REFERENCES users (org_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_by_user ON tokens (org_id, user_id);

CREATE TABLE audit (
    n          INTEGER PRIMARY KEY,
    org_id     BLOB NOT NULL,
    at         INTEGER NOT NULL,
    actor      BLOB NOT NULL,
    action     TEXT NOT NULL,
    target     TEXT NOT NULL,
    detail     BLOB NOT NULL,
    chain_no   INTEGER,
    chain_hash BLOB
) STRICT;
CREATE UNIQUE INDEX audit_chain ON audit (org_id, chain_no);
CREATE INDEX audit_unsealed ON audit (org_id, n) WHERE chain_no IS NULL;

CREATE TRIGGER audit_keeps_rows BEFORE DELETE ON audit BEGIN
    SELECT raise(ABORT, 'audit rows are never removed');
END;
CREATE TRIGGER audit_only_seals BEFORE UPDATE ON audit
WHEN OLD.chain_no IS NOT NULL OR OLD.chain_hash IS NOT NULL OR NEW.n IS NOT OLD.n
    OR NEW.org_id IS NOT OLD.org_id OR NEW.at IS NOT OLD.at OR NEW.actor IS NOT OLD.actor
    OR NEW.action IS NOT OLD.action OR NEW.target IS NOT OLD.target OR NEW.detail IS NOT OLD.detail
BEGIN
    SELECT raise(ABORT, 'audit rows are never changed');
END;

CREATE TABLE idempotency (
    org_id        BLOB NOT NULL,
    user_id       BLOB NOT NULL,
    key           TEXT NOT NULL,
    fingerprint   BLOB NOT NULL,
    resource_kind TEXT NOT NULL,
    resource_id   BLOB NOT NULL,
    status        INTEGER,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (org_id, user_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_age ON idempotency (created_at);

CREATE TABLE repos (
    org_id     BLOB NOT NULL REFERENCES orgs (id),
    id         BLOB NOT NULL,
    name       TEXT NOT NULL,
    path       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (org_id, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX repos_by_name ON repos (org_id, name);

-- An agent context without org belongs to the instance and comes from its configuration.
CREATE TABLE agent_contexts (
    id              BLOB NOT NULL PRIMARY KEY,
    org_id          BLOB REFERENCES orgs (id),
    name            TEXT NOT NULL,
    origin          TEXT NOT NULL,
    current_version INTEGER NOT NULL,
    retired_at      INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX agent_contexts_of_instance ON agent_contexts (name) WHERE org_id IS NULL;
CREATE UNIQUE INDEX agent_contexts_of_org ON agent_contexts (org_id, name) WHERE org_id IS NOT NULL;

CREATE TABLE agent_context_versions (
    context_id BLOB NOT NULL REFERENCES agent_contexts (id),
    version    INTEGER NOT NULL,
    org_id     BLOB,
    spec       BLOB NOT NULL,
    spec_hash  BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (context_id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE conversation_contexts (
    org_id          BLOB NOT NULL REFERENCES orgs (id),
    id              BLOB NOT NULL,
    name            TEXT NOT NULL,
    current_version INTEGER NOT NULL,
    PRIMARY KEY (org_id, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX conversation_contexts_by_name ON conversation_contexts (org_id, name);

CREATE TABLE conversation_context_versions (
    org_id     BLOB NOT NULL,
    context_id BLOB NOT NULL,
    version    INTEGER NOT NULL,
    spec       BLOB NOT NULL,
    spec_hash  BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (org_id, context_id, version),
    FOREIGN KEY (org_id, context_id) REFERENCES conversation_contexts (org_id, id)
) STRICT, WITHOUT ROWID;

-- Hot and narrow: the counters of a log, and its newest turn at a glance.
CREATE TABLE logs (
    org_id           BLOB NOT NULL REFERENCES orgs (id),
    id               BLOB NOT NULL,
    last_seq         INTEGER NOT NULL DEFAULT 0,
    last_at          INTEGER,
    turn_count       INTEGER NOT NULL DEFAULT 0,
    last_turn_id     BLOB,
    last_turn_status TEXT,
    last_turn_at     INTEGER,
    bytes_sent       INTEGER NOT NULL DEFAULT 0,
    bytes_saved      INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    org_id                       BLOB NOT NULL,
    id                           BLOB NOT NULL,
    log_id                       BLOB NOT NULL,
    owner_user                   BLOB NOT NULL,
    created_by                   BLOB NOT NULL,
    state                        TEXT NOT NULL,
    state_reason                 TEXT,
    revision                     INTEGER NOT NULL,
    name                         TEXT,
    key                          TEXT,
    description                  TEXT,
    category                     TEXT,
    ratings                      BLOB,
    is_public                    INTEGER NOT NULL,
    is_draft                     INTEGER NOT NULL,
    language                     TEXT,
    metadata                     BLOB,
    agent_context_id             BLOB NOT NULL REFERENCES agent_contexts (id),
    agent_context_version        INTEGER NOT NULL,
    conversation_context_id      BLOB,
    conversation_context_version INTEGER,
    repo_id                      BLOB,
    repo                         TEXT,
    workspace_id                 TEXT,
    scope_paths                  BLOB,
    basket_id                    BLOB,
    agent_type                   TEXT,
    interface                    TEXT NOT NULL,
    task_id                      BLOB NOT NULL,
    parent_id                    BLOB,
    fork_seq                     INTEGER,
    checkpoint_id                BLOB,
    provider_session_id          TEXT,
    agent_state                  BLOB,
    created_at                   INTEGER NOT NULL,
    updated_at                   INTEGER NOT NULL,
    last_active_at               INTEGER,
    deleted_at                   INTEGER,
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, log_id) REFERENCES logs (org_id, id),
    FOREIGN KEY (org_id, owner_user) REFERENCES users (org_id, id),
    FOREIGN KEY (org_id, created_by) REFERENCES users (org_id, id),
    FOREIGN KEY (org_id, repo_id) REFERENCES repos (org_id, id),
    FOREIGN KEY (org_id, conversation_context_id) REFERENCES conversation_contexts (org_id, id)
) STRICT;
CREATE INDEX sessions_by_state ON sessions (org_id, state, created_at DESC, id DESC);
CREATE INDEX sessions_by_repo ON sessions (org_id, repo_id, state, created_at DESC, id DESC)
    WHERE repo_id IS NOT NULL;
CREATE INDEX sessions_by_parent ON sessions (org_id, parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX sessions_by_log ON sessions (org_id, log_id);
CREATE UNIQUE INDEX sessions_by_basket ON sessions (org_id, basket_id, agent_type)
    WHERE basket_id IS NOT NULL;

-- What a session reads, in order. An open segment is the one it writes.
CREATE TABLE session_segments (
    org_id     BLOB NOT NULL,
    session_id BLOB NOT NULL,
    from_seq   INTEGER NOT NULL,
    to_seq     INTEGER,
    log_id     BLOB NOT NULL,
    first_turn INTEGER NOT NULL,
    last_turn  INTEGER,
    PRIMARY KEY (org_id, session_id, from_seq),
    FOREIGN KEY (org_id, session_id) REFERENCES sessions (org_id, id),
    FOREIGN KEY (org_id, log_id) REFERENCES logs (org_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_segments_by_log ON session_segments (org_id, log_id);

-- One row per reader of a session. The principal of 16 zero bytes is everyone in the org.
CREATE TABLE session_access (
    org_id     BLOB NOT NULL,
    principal  BLOB NOT NULL,
    session_id BLOB NOT NULL,
    via        TEXT NOT NULL,
    level      TEXT,
    state      TEXT NOT NULL,
    is_public  INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (org_id, principal, session_id),
    FOREIGN KEY (org_id, session_id) REFERENCES sessions (org_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_access_by_state
    ON session_access (org_id, principal, state, created_at DESC, session_id DESC);
CREATE INDEX session_access_by_session ON session_access (org_id, session_id);

-- Exact totals without a scan: per reader of session_access, and under the empty principal for the whole org.
CREATE TABLE session_counts (
    org_id    BLOB NOT NULL,
    principal BLOB NOT NULL,
    audience  TEXT NOT NULL,
    state     TEXT NOT NULL,
    slot      INTEGER NOT NULL DEFAULT 0,
    n         INTEGER NOT NULL,
    PRIMARY KEY (org_id, principal, audience, state, slot)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER count_session AFTER INSERT ON sessions BEGIN
    INSERT INTO session_counts (org_id, principal, audience, state, n)
    VALUES (NEW.org_id, x'', iif(NEW.is_public, 'public', 'private'), NEW.state, 1)
    ON CONFLICT DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER recount_session AFTER UPDATE OF state, is_public ON sessions
WHEN OLD.state IS NOT NEW.state OR OLD.is_public IS NOT NEW.is_public BEGIN
    UPDATE session_counts SET n = n - 1
    WHERE org_id = OLD.org_id AND principal = x''
      AND audience = iif(OLD.is_public, 'public', 'private') AND state = OLD.state AND slot = 0;
    INSERT INTO session_counts (org_id, principal, audience, state, n)
    VALUES (NEW.org_id, x'', iif(NEW.is_public, 'public', 'private'), NEW.state, 1)
    ON CONFLICT DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER uncount_session AFTER DELETE ON sessions BEGIN
    UPDATE session_counts SET n = n - 1
    WHERE org_id = OLD.org_id AND principal = x''
      AND audience = iif(OLD.is_public, 'public', 'private') AND state = OLD.state AND slot = 0;
END;
CREATE TRIGGER count_access AFTER INSERT ON session_access BEGIN
    INSERT INTO session_counts (org_id, principal, audience, state, n)
    VALUES (NEW.org_id, NEW.principal, iif(NEW.is_public, 'public', 'private'), NEW.state, 1)
    ON CONFLICT DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER recount_access AFTER UPDATE OF state, is_public ON session_access
WHEN OLD.state IS NOT NEW.state OR OLD.is_public IS NOT NEW.is_public BEGIN
    UPDATE session_counts SET n = n - 1
    WHERE org_id = OLD.org_id AND principal = OLD.principal
      AND audience = iif(OLD.is_public, 'public', 'private') AND state = OLD.state AND slot = 0;
    INSERT INTO session_counts (org_id, principal, audience, state, n)
    VALUES (NEW.org_id, NEW.principal, iif(NEW.is_public, 'public', 'private'), NEW.state, 1)
    ON CONFLICT DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER uncount_access AFTER DELETE ON session_access BEGIN
    UPDATE session_counts SET n = n - 1
    WHERE org_id = OLD.org_id AND principal = OLD.principal
      AND audience = iif(OLD.is_public, 'public', 'private') AND state = OLD.state AND slot = 0;
END;

-- In append order; a log's own order is the unique index.
CREATE TABLE events (
    row_id     INTEGER PRIMARY KEY,
    org_id     BLOB NOT NULL,
    log_id     BLOB NOT NULL,
    seq        INTEGER NOT NULL,
    turn_id    BLOB,
    type       TEXT NOT NULL,
    at         INTEGER NOT NULL,
    message_id BLOB,
    role       TEXT,
    key_id     BLOB,
    data       BLOB NOT NULL,
    FOREIGN KEY (org_id, log_id) REFERENCES logs (org_id, id) DEFERRABLE INITIALLY DEFERRED
) STRICT;
CREATE UNIQUE INDEX events_by_seq ON events (log_id, seq);
CREATE INDEX events_closing_messages ON events (log_id, seq) WHERE role IS NOT NULL;
CREATE INDEX events_closing_messages_by_time ON events (log_id, at, seq) WHERE role IS NOT NULL;

CREATE TRIGGER events_never_change BEFORE UPDATE ON events BEGIN
    SELECT raise(ABORT, 'events are never changed');
END;
-- Events go only after their log; the deferred foreign key then makes sure that all of them do.
CREATE TRIGGER events_live_as_long_as_their_log BEFORE DELETE ON events
WHEN EXISTS (SELECT 1 FROM logs WHERE org_id = OLD.org_id AND id = OLD.log_id) BEGIN
    SELECT raise(ABORT, 'events are never removed while their log exists');
END;

CREATE TABLE turns (
    org_id               BLOB NOT NULL,
    id                   BLOB NOT NULL,
    log_id               BLOB NOT NULL,
    number               INTEGER NOT NULL,
    created_by           BLOB NOT NULL,
    ticket_id            BLOB NOT NULL,
    status               TEXT NOT NULL,
    mode                 TEXT NOT NULL,
    queued_at            INTEGER NOT NULL,
    started_at           INTEGER,
    dispatched_at        INTEGER,
    node_id              BLOB,
    fence                INTEGER,
    conversation_id      BLOB NOT NULL,
    response_id          TEXT,
    previous_response_id TEXT,
    provider_seq         INTEGER,
    chain_expires_at     INTEGER,
    model                TEXT,
    first_token_at       INTEGER,
    received_at          INTEGER,
    finished_at          INTEGER,
    rerun_of             BLOB,
    workspace_id         TEXT,
    repo                 TEXT,
    language             TEXT,
    rag_scope            BLOB,
    instruction_payload  BLOB NOT NULL,
    answer_payload       BLOB,
    request_payload      BLOB,
    response_payload     BLOB,
    file_count           INTEGER NOT NULL,
    warnings             BLOB,
    errors               BLOB,
    error_code           TEXT,
    input_tokens         INTEGER,
    output_tokens        INTEGER,
    bytes_sent           INTEGER,
    bytes_saved          INTEGER,
    instruction_summary  TEXT NOT NULL,
    answer_summary       TEXT,
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, log_id) REFERENCES logs (org_id, id) DEFERRABLE INITIALLY DEFERRED,
    FOREIGN KEY (org_id, created_by) REFERENCES users (org_id, id)
) STRICT;
CREATE UNIQUE INDEX turns_by_number ON turns (log_id, number);
CREATE UNIQUE INDEX turns_running ON turns (log_id)
    WHERE status = 'pending' AND started_at IS NOT NULL;
CREATE INDEX turns_pending ON turns (log_id, number) WHERE status = 'pending';
CREATE INDEX turns_of_node ON turns (node_id) WHERE status = 'pending' AND node_id IS NOT NULL;

CREATE TRIGGER turns_leave_pending_once BEFORE UPDATE ON turns WHEN OLD.status <> 'pending' BEGIN
    SELECT raise(ABORT, 'a finished turn never changes');
END;

CREATE TABLE turn_files (
    org_id  BLOB NOT NULL,
    turn_id BLOB NOT NULL,
    ord     INTEGER NOT NULL,
    path    TEXT NOT NULL,
    sha256  BLOB NOT NULL,
    size    INTEGER NOT NULL,
    touched INTEGER NOT NULL,
    open    INTEGER NOT NULL,
    named   INTEGER NOT NULL,
    fate    TEXT NOT NULL,
    reason  TEXT NOT NULL,
    PRIMARY KEY (org_id, turn_id, path),
    FOREIGN KEY (org_id, turn_id) REFERENCES turns (org_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

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

-- What the live chain of a log already holds.
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

-- location: db (body), parts (payload_parts), event (the text of event_seq of the same log) or url.
CREATE TABLE payloads (
    org_id     BLOB NOT NULL,
    id         BLOB NOT NULL,
    log_id     BLOB NOT NULL,
    sha256     BLOB NOT NULL,
    size       INTEGER NOT NULL,
    media_type TEXT NOT NULL,
    key_id     BLOB,
    location   TEXT NOT NULL,
    event_seq  INTEGER,
    part_count INTEGER,
    url        TEXT,
    sealed_at  INTEGER,
    body       BLOB,
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, log_id) REFERENCES logs (org_id, id) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;
CREATE INDEX payloads_by_log ON payloads (log_id);

-- Parts come before the payload that names them, so nothing refers to it here.
CREATE TABLE payload_parts (
    org_id     BLOB NOT NULL,
    payload_id BLOB NOT NULL,
    part       INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    body       BLOB NOT NULL,
    PRIMARY KEY (org_id, payload_id, part)
) STRICT;
CREATE INDEX payload_parts_by_age ON payload_parts (created_at);

CREATE TABLE permissions (
    org_id      BLOB NOT NULL,
    session_id  BLOB NOT NULL,
    request_id  TEXT NOT NULL,
    turn_id     BLOB,
    tool        TEXT,
    options     BLOB,
    state       TEXT NOT NULL,
    answered_by BLOB,
    at          INTEGER NOT NULL,
    PRIMARY KEY (org_id, session_id, request_id),
    FOREIGN KEY (org_id, session_id) REFERENCES sessions (org_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX permissions_pending ON permissions (org_id, session_id) WHERE state = 'pending';

CREATE TABLE checkpoints (
    org_id     BLOB NOT NULL,
    id         BLOB NOT NULL,
    session_id BLOB,
    ticket_id  BLOB,
    seq        INTEGER NOT NULL,
    reason     TEXT NOT NULL,
    state      BLOB NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, session_id) REFERENCES sessions (org_id, id)
) STRICT;
CREATE INDEX checkpoints_by_session ON checkpoints (org_id, session_id, at);

-- A ticket outlives its session, which is then NULL.
CREATE TABLE tickets (
    org_id       BLOB NOT NULL REFERENCES orgs (id),
    id           BLOB NOT NULL,
    session_id   BLOB,
    basket_id    BLOB,
    kind         TEXT NOT NULL,
    task_type    TEXT NOT NULL,
    task_intent  TEXT,
    source       TEXT NOT NULL,
    initiated_by BLOB NOT NULL,
    status       TEXT NOT NULL,
    assignee     TEXT,
    lease_until  INTEGER,
    result       BLOB,
    created_at   INTEGER NOT NULL,
    archived_at  INTEGER,
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, session_id) REFERENCES sessions (org_id, id)
        DEFERRABLE INITIALLY DEFERRED
) STRICT;
CREATE INDEX tickets_by_session ON tickets (org_id, session_id, created_at);
CREATE INDEX tickets_by_basket ON tickets (org_id, basket_id, created_at DESC)
    WHERE basket_id IS NOT NULL;
CREATE INDEX tickets_by_lease ON tickets (status, lease_until) WHERE lease_until IS NOT NULL;

CREATE TABLE outputs (
    org_id     BLOB NOT NULL,
    id         BLOB NOT NULL,
    ticket_id  BLOB NOT NULL,
    turn_id    BLOB,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    payload_id BLOB NOT NULL,
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, ticket_id) REFERENCES tickets (org_id, id)
) STRICT;
CREATE UNIQUE INDEX outputs_by_name ON outputs (org_id, ticket_id, name, version);
