-- The tables of the SQLite engine in PostgreSQL's types. A bytea of data begins with its codec's mark.
-- Foreign keys are named <table>_needs_<what>: the engine tells its caller what is missing by that name.

CREATE TABLE nodes (
    id           uuid NOT NULL PRIMARY KEY,
    boot_id      uuid NOT NULL,
    url          text,
    heartbeat_at timestamptz(3) NOT NULL,
    fence        bigint NOT NULL
);

CREATE TABLE orgs (
    id          uuid NOT NULL PRIMARY KEY,
    name        text NOT NULL,
    data_key_id uuid,
    deleted_at  timestamptz(3)
);
CREATE UNIQUE INDEX orgs_by_name ON orgs (name);

CREATE TABLE users (
    org_id         uuid NOT NULL CONSTRAINT users_needs_org REFERENCES orgs (id),
    id             uuid NOT NULL,
    name           text NOT NULL,
    role           text NOT NULL,
    instance_owner boolean NOT NULL,
    disabled_at    timestamptz(3),
    PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX users_by_name ON users (org_id, name);
CREATE INDEX users_instance_owner ON users (id) WHERE instance_owner;

CREATE TABLE tokens (
    id         uuid NOT NULL PRIMARY KEY,
    org_id     uuid NOT NULL,
    user_id    uuid NOT NULL,
    name       text NOT NULL,
    hash       bytea NOT NULL UNIQUE,
    role       text NOT NULL,
    session_id uuid,
    created_at timestamptz(3) NOT NULL,
    expires_at timestamptz(3),
    revoked_at timestamptz(3),
    CONSTRAINT tokens_needs_user FOREIGN KEY (org_id, user_id) REFERENCES users (org_id, id)
);
CREATE INDEX tokens_by_user ON tokens (org_id, user_id);

CREATE TABLE audit (
    n          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id     uuid NOT NULL,
    at         timestamptz(3) NOT NULL,
    actor      uuid NOT NULL,
    action     text NOT NULL,
    target     text NOT NULL,
    detail     bytea NOT NULL,
    chain_no   bigint,
    chain_hash bytea
);
CREATE UNIQUE INDEX audit_chain ON audit (org_id, chain_no);
CREATE INDEX audit_unsealed ON audit (org_id, n) WHERE chain_no IS NULL;

CREATE TABLE idempotency (
    org_id        uuid NOT NULL,
    user_id       uuid NOT NULL,
    key           text NOT NULL,
    fingerprint   bytea NOT NULL,
    resource_kind text NOT NULL,
    resource_id   uuid NOT NULL,
    status        integer,
    created_at    timestamptz(3) NOT NULL,
    PRIMARY KEY (org_id, user_id, key)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

CREATE TABLE repos (
    org_id     uuid NOT NULL CONSTRAINT repos_needs_org REFERENCES orgs (id),
    id         uuid NOT NULL,
    name       text NOT NULL,
    path       text NOT NULL,
    created_at timestamptz(3) NOT NULL,
    PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX repos_by_name ON repos (org_id, name);

-- An agent context without org belongs to the instance and comes from its configuration.
CREATE TABLE agent_contexts (
    id              uuid NOT NULL PRIMARY KEY,
    org_id          uuid CONSTRAINT agent_contexts_needs_org REFERENCES orgs (id),
    name            text NOT NULL,
    origin          text NOT NULL,
    current_version integer NOT NULL,
    retired_at      timestamptz(3)
);
CREATE UNIQUE INDEX agent_contexts_of_instance ON agent_contexts (name) WHERE org_id IS NULL;
CREATE UNIQUE INDEX agent_contexts_of_org ON agent_contexts (org_id, name) WHERE org_id IS NOT NULL;

CREATE TABLE agent_context_versions (
    context_id uuid NOT NULL CONSTRAINT agent_context_versions_needs_agent REFERENCES agent_contexts (id),
    version    integer NOT NULL,
    org_id     uuid,
    spec       bytea NOT NULL,
    spec_hash  bytea NOT NULL,
    created_at timestamptz(3) NOT NULL DEFAULT now(),
    PRIMARY KEY (context_id, version)
);

CREATE TABLE conversation_contexts (
    org_id          uuid NOT NULL CONSTRAINT conversation_contexts_needs_org REFERENCES orgs (id),
    id              uuid NOT NULL,
    name            text NOT NULL,
    current_version integer NOT NULL,
    PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX conversation_contexts_by_name ON conversation_contexts (org_id, name);

CREATE TABLE conversation_context_versions (
    org_id     uuid NOT NULL,
    context_id uuid NOT NULL,
    version    integer NOT NULL,
    spec       bytea NOT NULL,
    spec_hash  bytea NOT NULL,
    created_at timestamptz(3) NOT NULL,
    PRIMARY KEY (org_id, context_id, version),
    CONSTRAINT conversation_context_versions_needs_conversation_context FOREIGN KEY (org_id, context_id)
        REFERENCES conversation_contexts (org_id, id)
);

-- Hot and narrow: the counters of a log, and its newest turn at a glance.
CREATE TABLE logs (
    org_id           uuid NOT NULL CONSTRAINT logs_needs_org REFERENCES orgs (id),
    id               uuid NOT NULL,
    last_seq         bigint NOT NULL DEFAULT 0,
    last_at          timestamptz(3),
    turn_count       integer NOT NULL DEFAULT 0,
    last_turn_id     uuid,
    last_turn_status text,
    last_turn_at     timestamptz(3),
    bytes_sent       bigint NOT NULL DEFAULT 0,
    bytes_saved      bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, id)
) WITH (fillfactor = 50);

CREATE TABLE sessions (
    org_id                       uuid NOT NULL,
    id                           uuid NOT NULL,
    log_id                       uuid NOT NULL,
    owner_user                   uuid NOT NULL,
    created_by                   uuid NOT NULL,
    state                        text NOT NULL,
    state_reason                 text,
    revision                     bigint NOT NULL,
    name                         text,
    key                          text,
    description                  text,
    category                     text,
    ratings                      bytea,
    is_public                    boolean NOT NULL,
    is_draft                     boolean NOT NULL,
    language                     text,
    metadata                     bytea,
    agent_context_id             uuid NOT NULL CONSTRAINT sessions_needs_agent REFERENCES agent_contexts (id),
    agent_context_version        integer NOT NULL,
    conversation_context_id      uuid,
    conversation_context_version integer,
    repo_id                      uuid,
    repo                         text,
    workspace_id                 text,
    scope_paths                  bytea,
    basket_id                    uuid,
    agent_type                   text,
    interface                    text NOT NULL,
    task_id                      uuid NOT NULL,
    parent_id                    uuid,
    fork_seq                     bigint,
    checkpoint_id                uuid,
    provider_session_id          text,
    agent_state                  bytea,
    created_at                   timestamptz(3) NOT NULL,
    updated_at                   timestamptz(3) NOT NULL,
    last_active_at               timestamptz(3),
    deleted_at                   timestamptz(3),
    PRIMARY KEY (org_id, id),
    CONSTRAINT sessions_needs_log FOREIGN KEY (org_id, log_id) REFERENCES logs (org_id, id),
    CONSTRAINT sessions_needs_user FOREIGN KEY (org_id, owner_user) REFERENCES users (org_id, id),
    CONSTRAINT sessions_created_by_needs_user FOREIGN KEY (org_id, created_by) REFERENCES users (org_id, id),
    CONSTRAINT sessions_needs_repository FOREIGN KEY (org_id, repo_id) REFERENCES repos (org_id, id),
    CONSTRAINT sessions_needs_conversation_context FOREIGN KEY (org_id, conversation_context_id)
        REFERENCES conversation_contexts (org_id, id)
);
CREATE INDEX sessions_by_state ON sessions (org_id, state, created_at DESC, id DESC);
CREATE INDEX sessions_by_repo ON sessions (org_id, repo_id, state, created_at DESC, id DESC)
    WHERE repo_id IS NOT NULL;
CREATE INDEX sessions_by_parent ON sessions (org_id, parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX sessions_by_log ON sessions (org_id, log_id);
CREATE UNIQUE INDEX sessions_by_basket ON sessions (org_id, basket_id, agent_type)
    WHERE basket_id IS NOT NULL;

-- What a session reads, in order. An open segment is the one it writes.
CREATE TABLE session_segments (
    org_id     uuid NOT NULL,
    session_id uuid NOT NULL,
    from_seq   bigint NOT NULL,
    to_seq     bigint,
    log_id     uuid NOT NULL,
    first_turn integer NOT NULL,
    last_turn  integer,
    PRIMARY KEY (org_id, session_id, from_seq),
    CONSTRAINT session_segments_needs_session FOREIGN KEY (org_id, session_id) REFERENCES sessions (org_id, id),
    CONSTRAINT session_segments_needs_log FOREIGN KEY (org_id, log_id) REFERENCES logs (org_id, id)
);
CREATE INDEX session_segments_by_log ON session_segments (org_id, log_id);

-- One row per reader of a session, with what lists filter by.
CREATE TABLE session_access (
    org_id     uuid NOT NULL,
    principal  uuid NOT NULL,
    session_id uuid NOT NULL,
    via        text NOT NULL,
    level      text,
    state      text NOT NULL,
    is_public  boolean NOT NULL,
    created_at timestamptz(3) NOT NULL,
    expires_at timestamptz(3),
    PRIMARY KEY (org_id, principal, session_id),
    CONSTRAINT session_access_needs_session FOREIGN KEY (org_id, session_id) REFERENCES sessions (org_id, id)
);
CREATE INDEX session_access_by_state
    ON session_access (org_id, principal, state, created_at DESC, session_id DESC);
CREATE INDEX session_access_by_session ON session_access (org_id, session_id);

-- In append order; a log's own order is the unique index.
CREATE TABLE events (
    row_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id     uuid NOT NULL,
    log_id     uuid NOT NULL,
    seq        bigint NOT NULL,
    turn_id    uuid,
    type       text NOT NULL,
    at         timestamptz(3) NOT NULL,
    message_id uuid,
    role       text,
    key_id     uuid,
    data       bytea NOT NULL,
    CONSTRAINT events_needs_log FOREIGN KEY (org_id, log_id) REFERENCES logs (org_id, id)
);
CREATE UNIQUE INDEX events_by_seq ON events (log_id, seq);
CREATE INDEX events_closing_messages ON events (log_id, seq) WHERE role IS NOT NULL;
CREATE INDEX events_closing_messages_by_time ON events (log_id, at, seq) WHERE role IS NOT NULL;

CREATE TABLE turns (
    org_id               uuid NOT NULL,
    id                   uuid NOT NULL,
    log_id               uuid NOT NULL,
    number               integer NOT NULL,
    created_by           uuid NOT NULL,
    ticket_id            uuid NOT NULL,
    status               text NOT NULL,
    mode                 text NOT NULL,
    queued_at            timestamptz(3) NOT NULL,
    started_at           timestamptz(3),
    dispatched_at        timestamptz(3),
    node_id              uuid,
    fence                bigint,
    conversation_id      uuid NOT NULL,
    response_id          text,
    previous_response_id text,
    provider_seq         bigint,
    chain_expires_at     timestamptz(3),
    model                text,
    first_token_at       timestamptz(3),
    received_at          timestamptz(3),
    finished_at          timestamptz(3),
    rerun_of             uuid,
    workspace_id         text,
    repo                 text,
    language             text,
    rag_scope            bytea,
    instruction_payload  uuid NOT NULL,
    answer_payload       uuid,
    request_payload      uuid,
    response_payload     uuid,
    file_count           integer NOT NULL,
    warnings             bytea,
    errors               bytea,
    error_code           text,
    input_tokens         bigint,
    output_tokens        bigint,
    bytes_sent           bigint,
    bytes_saved          bigint,
    instruction_summary  text NOT NULL,
    answer_summary       text,
    PRIMARY KEY (org_id, id),
    CONSTRAINT turns_needs_log FOREIGN KEY (org_id, log_id) REFERENCES logs (org_id, id),
    CONSTRAINT turns_needs_user FOREIGN KEY (org_id, created_by) REFERENCES users (org_id, id)
);
CREATE UNIQUE INDEX turns_by_number ON turns (log_id, number);
CREATE UNIQUE INDEX turns_running ON turns (log_id)
    WHERE status = 'pending' AND started_at IS NOT NULL;
CREATE INDEX turns_pending ON turns (log_id, number) WHERE status = 'pending';
CREATE INDEX turns_of_node ON turns (node_id) WHERE status = 'pending' AND node_id IS NOT NULL;

CREATE TABLE turn_files (
    org_id  uuid NOT NULL,
    turn_id uuid NOT NULL,
    ord     integer NOT NULL,
    path    text NOT NULL,
    sha256  bytea NOT NULL,
    size    bigint NOT NULL,
    touched boolean NOT NULL,
    open    boolean NOT NULL,
    named   boolean NOT NULL,
    fate    text NOT NULL,
    reason  text NOT NULL,
    PRIMARY KEY (org_id, turn_id, path),
    CONSTRAINT turn_files_needs_turn FOREIGN KEY (org_id, turn_id) REFERENCES turns (org_id, id) ON DELETE CASCADE
);

CREATE TABLE turn_chunks (
    org_id       uuid NOT NULL,
    turn_id      uuid NOT NULL,
    ord          integer NOT NULL,
    chunk_id     uuid NOT NULL,
    path         text NOT NULL,
    start_line   integer NOT NULL,
    end_line     integer NOT NULL,
    sha256       bytea NOT NULL,
    fate         text NOT NULL,
    text_payload uuid,
    PRIMARY KEY (org_id, turn_id, ord),
    CONSTRAINT turn_chunks_needs_turn FOREIGN KEY (org_id, turn_id) REFERENCES turns (org_id, id) ON DELETE CASCADE
);

-- What the live chain of a log already holds.
CREATE TABLE chain_items (
    org_id     uuid NOT NULL,
    log_id     uuid NOT NULL,
    chain_no   bigint NOT NULL,
    kind       text NOT NULL,
    ref        text NOT NULL,
    sha256     bytea NOT NULL,
    since_turn integer NOT NULL,
    PRIMARY KEY (org_id, log_id, chain_no, kind, ref),
    CONSTRAINT chain_items_needs_log FOREIGN KEY (org_id, log_id) REFERENCES logs (org_id, id) ON DELETE CASCADE
);

-- location: db (body), parts (payload_parts), event (the text of event_seq of the same log) or url.
CREATE TABLE payloads (
    org_id     uuid NOT NULL,
    id         uuid NOT NULL,
    log_id     uuid NOT NULL,
    sha256     bytea NOT NULL,
    size       bigint NOT NULL,
    media_type text NOT NULL,
    key_id     uuid,
    location   text NOT NULL,
    event_seq  bigint,
    part_count integer,
    url        text,
    sealed_at  timestamptz(3),
    body       bytea,
    PRIMARY KEY (org_id, id),
    CONSTRAINT payloads_needs_log FOREIGN KEY (org_id, log_id) REFERENCES logs (org_id, id)
);
CREATE INDEX payloads_by_log ON payloads (log_id);

-- Parts come before the payload that names them, so nothing refers to it here.
CREATE TABLE payload_parts (
    org_id     uuid NOT NULL,
    payload_id uuid NOT NULL,
    part       integer NOT NULL,
    created_at timestamptz(3) NOT NULL DEFAULT now(),
    body       bytea NOT NULL,
    PRIMARY KEY (org_id, payload_id, part)
);
CREATE INDEX payload_parts_by_age ON payload_parts (created_at);

CREATE TABLE permissions (
    org_id      uuid NOT NULL,
    session_id  uuid NOT NULL,
    request_id  text NOT NULL,
    turn_id     uuid,
    tool        text,
    options     bytea,
    state       text NOT NULL,
    answered_by uuid,
    at          timestamptz(3) NOT NULL,
    PRIMARY KEY (org_id, session_id, request_id),
    CONSTRAINT permissions_needs_session FOREIGN KEY (org_id, session_id) REFERENCES sessions (org_id, id)
);
CREATE INDEX permissions_pending ON permissions (org_id, session_id) WHERE state = 'pending';

CREATE TABLE checkpoints (
    org_id     uuid NOT NULL,
    id         uuid NOT NULL,
    session_id uuid,
    ticket_id  uuid,
    seq        bigint NOT NULL,
    reason     text NOT NULL,
    state      bytea NOT NULL,
    at         timestamptz(3) NOT NULL,
    PRIMARY KEY (org_id, id),
    CONSTRAINT checkpoints_needs_session FOREIGN KEY (org_id, session_id) REFERENCES sessions (org_id, id)
);
CREATE INDEX checkpoints_by_session ON checkpoints (org_id, session_id, at);

-- A ticket outlives its session, which is then NULL.
CREATE TABLE tickets (
    org_id       uuid NOT NULL CONSTRAINT tickets_needs_org REFERENCES orgs (id),
    id           uuid NOT NULL,
    session_id   uuid,
    basket_id    uuid,
    kind         text NOT NULL,
    task_type    text NOT NULL,
    task_intent  text,
    source       text NOT NULL,
    initiated_by uuid NOT NULL,
    status       text NOT NULL,
    assignee     text,
    lease_until  timestamptz(3),
    result       bytea,
    created_at   timestamptz(3) NOT NULL,
    archived_at  timestamptz(3),
    PRIMARY KEY (org_id, id),
    CONSTRAINT tickets_needs_session FOREIGN KEY (org_id, session_id) REFERENCES sessions (org_id, id)
        ON DELETE SET NULL (session_id)
);
CREATE INDEX tickets_by_session ON tickets (org_id, session_id, created_at);
CREATE INDEX tickets_by_basket ON tickets (org_id, basket_id, created_at DESC)
    WHERE basket_id IS NOT NULL;
CREATE INDEX tickets_by_lease ON tickets (status, lease_until) WHERE lease_until IS NOT NULL;

CREATE TABLE outputs (
    org_id     uuid NOT NULL,
    id         uuid NOT NULL,
    ticket_id  uuid NOT NULL,
    turn_id    uuid,
    name       text NOT NULL,
    version    integer NOT NULL,
    payload_id uuid NOT NULL,
    PRIMARY KEY (org_id, id),
    CONSTRAINT outputs_needs_ticket FOREIGN KEY (org_id, ticket_id) REFERENCES tickets (org_id, id)
);
CREATE UNIQUE INDEX outputs_by_name ON outputs (org_id, ticket_id, name, version);

CREATE FUNCTION refuse_finished_turn() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a finished turn never changes';
END $$;
CREATE TRIGGER turns_leave_pending_once BEFORE UPDATE ON turns
    FOR EACH ROW WHEN (OLD.status <> 'pending') EXECUTE FUNCTION refuse_finished_turn();

-- Tenants. The setting is empty, not absent, after a transaction that set it; both mean no org and show nothing.
-- FORCE makes the policies hold for the owner too.
DO $$
DECLARE
    tenant_table text;
BEGIN
    FOREACH tenant_table IN ARRAY ARRAY[
        'users', 'tokens', 'audit', 'idempotency', 'repos', 'conversation_contexts', 'conversation_context_versions',
        'logs', 'sessions', 'session_segments', 'session_access', 'events', 'turns', 'turn_files', 'turn_chunks',
        'chain_items', 'payloads', 'payload_parts', 'permissions', 'checkpoints', 'tickets', 'outputs'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant_table);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', tenant_table);
        EXECUTE format(
            $policy$CREATE POLICY tenant ON %I
                USING (org_id = nullif(current_setting('skein.org', true), '')::uuid)$policy$,
            tenant_table
        );
    END LOOP;
END $$;

ALTER TABLE orgs ENABLE ROW LEVEL SECURITY;
ALTER TABLE orgs FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON orgs USING (id = nullif(current_setting('skein.org', true), '')::uuid);

-- Every org sees the contexts of the instance; writing needs an org.
ALTER TABLE agent_contexts ENABLE ROW LEVEL SECURITY;
ALTER TABLE agent_contexts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON agent_contexts
    USING (org_id IS NULL OR org_id = nullif(current_setting('skein.org', true), '')::uuid)
    WITH CHECK (org_id = nullif(current_setting('skein.org', true), '')::uuid);
ALTER TABLE agent_context_versions ENABLE ROW LEVEL SECURITY;
ALTER TABLE agent_context_versions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON agent_context_versions
    USING (org_id IS NULL OR org_id = nullif(current_setting('skein.org', true), '')::uuid)
    WITH CHECK (org_id = nullif(current_setting('skein.org', true), '')::uuid);

-- Looking across tenants is possible through the functions below and in no other way: they run as the owner, and
-- these policies open to the owner what they need.
CREATE POLICY system ON orgs FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY system ON users FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY system ON tokens FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY system ON sessions FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY system ON turns FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY system ON payloads FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY system ON payload_parts TO CURRENT_USER USING (true);
CREATE POLICY system ON idempotency TO CURRENT_USER USING (true);
CREATE POLICY system ON agent_contexts TO CURRENT_USER USING (true);
CREATE POLICY system ON agent_context_versions TO CURRENT_USER USING (true);

CREATE FUNCTION system_find_identity(token_hash bytea)
RETURNS TABLE (
    id uuid, org_id uuid, user_id uuid, name text, hash bytea, role text, session_id uuid,
    created_at timestamptz, expires_at timestamptz, revoked_at timestamptz,
    user_name text, user_role text, instance_owner boolean, org_name text
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT t.id, t.org_id, t.user_id, t.name, t.hash, t.role, t.session_id,
           t.created_at, t.expires_at, t.revoked_at, u.name, u.role, u.instance_owner, o.name
    FROM tokens t
    JOIN users u ON u.org_id = t.org_id AND u.id = t.user_id AND u.disabled_at IS NULL
    JOIN orgs o ON o.id = t.org_id AND o.deleted_at IS NULL
    WHERE t.hash = token_hash
$$;

CREATE FUNCTION system_find_instance_owner()
RETURNS TABLE (id uuid, org_id uuid, name text, role text, instance_owner boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT u.id, u.org_id, u.name, u.role, u.instance_owner
    FROM users u WHERE u.instance_owner ORDER BY u.id LIMIT 1
$$;

CREATE FUNCTION system_list_pending(after_turn uuid, page_size bigint)
RETURNS TABLE (org_id uuid, session_id uuid, turn_id uuid, created_by uuid, started_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT t.org_id, s.id, t.id, t.created_by, t.started_at
    FROM turns t
    JOIN sessions s ON s.org_id = t.org_id AND s.log_id = t.log_id
    WHERE t.status = 'pending' AND (after_turn IS NULL OR t.id > after_turn)
    ORDER BY t.id
    LIMIT page_size
$$;

-- The caller holds no lock: two processes that start at once are told apart here.
CREATE FUNCTION system_register_agent(proposed_id uuid, agent_name text, new_spec bytea, new_hash bytea)
RETURNS TABLE (id uuid, version integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    known agent_contexts%ROWTYPE;
BEGIN
    INSERT INTO agent_contexts (id, name, origin, current_version) VALUES (proposed_id, agent_name, 'config', 0)
    ON CONFLICT (name) WHERE org_id IS NULL DO NOTHING;
    SELECT * INTO known FROM agent_contexts c WHERE c.org_id IS NULL AND c.name = agent_name FOR UPDATE;

    IF NOT EXISTS (
        SELECT 1 FROM agent_context_versions v
        WHERE v.context_id = known.id AND v.version = known.current_version AND v.spec_hash = new_hash
    ) THEN
        known.current_version := known.current_version + 1;
        INSERT INTO agent_context_versions (context_id, version, spec, spec_hash)
        VALUES (known.id, known.current_version, new_spec, new_hash);
    END IF;
    UPDATE agent_contexts c SET current_version = known.current_version, retired_at = NULL WHERE c.id = known.id;

    RETURN QUERY SELECT known.id, known.current_version;
END $$;

CREATE FUNCTION system_sweep(older_than timestamptz) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    parts bigint;
    records bigint;
BEGIN
    DELETE FROM payload_parts p
    WHERE p.created_at < older_than
      AND NOT EXISTS (SELECT 1 FROM payloads l WHERE l.org_id = p.org_id AND l.id = p.payload_id);
    GET DIAGNOSTICS parts = ROW_COUNT;
    DELETE FROM idempotency WHERE created_at < older_than;
    GET DIAGNOSTICS records = ROW_COUNT;
    RETURN parts + records;
END $$;

-- Events may only be added; they go with the last session that reads their log, and only here.
CREATE FUNCTION purge_session(doomed uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    org uuid := nullif(current_setting('skein.org', true), '')::uuid;
    log uuid;
    unread uuid[];
BEGIN
    IF NOT EXISTS (SELECT 1 FROM sessions WHERE org_id = org AND id = doomed) THEN
        RETURN false;
    END IF;
    SELECT array_agg(DISTINCT log_id) INTO unread FROM session_segments WHERE org_id = org AND session_id = doomed;
    -- Whoever appends to these logs has finished or will find them gone.
    PERFORM 1 FROM logs WHERE org_id = org AND id = ANY (unread) ORDER BY id FOR UPDATE;
    DELETE FROM session_segments WHERE org_id = org AND session_id = doomed;
    DELETE FROM session_access WHERE org_id = org AND session_id = doomed;
    DELETE FROM permissions WHERE org_id = org AND session_id = doomed;
    DELETE FROM checkpoints WHERE org_id = org AND session_id = doomed;
    DELETE FROM sessions WHERE org_id = org AND id = doomed;

    FOREACH log IN ARRAY coalesce(unread, '{}') LOOP
        CONTINUE WHEN EXISTS (SELECT 1 FROM session_segments WHERE org_id = org AND log_id = log);
        DELETE FROM payload_parts p USING payloads l
        WHERE l.org_id = org AND l.log_id = log AND p.org_id = org AND p.payload_id = l.id;
        DELETE FROM payloads WHERE org_id = org AND log_id = log;
        DELETE FROM turns WHERE org_id = org AND log_id = log;
        DELETE FROM events WHERE org_id = org AND log_id = log;
        DELETE FROM logs WHERE org_id = org AND id = log;
    END LOOP;
    RETURN true;
END $$;

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC;
