-- What turns gave to their agents, what the chains of logs hold, and the tokens that were used.
-- turn_chunks and chain_items take another shape; nothing was ever written to them.

ALTER TABLE turns
    ADD COLUMN temperature double precision,
    ADD COLUMN inputs_payload uuid,
    ADD COLUMN bundle_payload uuid,
    ADD COLUMN chunk_count integer NOT NULL DEFAULT 0;

CREATE TABLE turn_plans (
    org_id  uuid NOT NULL,
    turn_id uuid NOT NULL,
    data    bytea NOT NULL,
    PRIMARY KEY (org_id, turn_id),
    CONSTRAINT turn_plans_needs_turn FOREIGN KEY (org_id, turn_id) REFERENCES turns (org_id, id) ON DELETE CASCADE
);

DROP TABLE turn_chunks;
CREATE TABLE turn_chunks (
    org_id     uuid NOT NULL,
    turn_id    uuid NOT NULL,
    ord        integer NOT NULL,
    chunk_id   text NOT NULL,
    path       text NOT NULL,
    start_line integer NOT NULL,
    end_line   integer NOT NULL,
    sha256     bytea NOT NULL,
    size       bigint NOT NULL,
    score      double precision NOT NULL,
    fate       text NOT NULL,
    reason     text NOT NULL,
    PRIMARY KEY (org_id, turn_id, ord),
    CONSTRAINT turn_chunks_needs_turn FOREIGN KEY (org_id, turn_id) REFERENCES turns (org_id, id) ON DELETE CASCADE
);

-- The live chain of a log. last_ord counts the items that were ever sent.
CREATE TABLE chains (
    org_id        uuid NOT NULL,
    log_id        uuid NOT NULL,
    chain_no      bigint NOT NULL,
    provider      text NOT NULL,
    model         text,
    response_id   text,
    expires_at    timestamptz(3),
    tip_turn      uuid NOT NULL,
    history_bytes bigint NOT NULL,
    open_calls    bytea,
    last_ord      bigint NOT NULL,
    PRIMARY KEY (org_id, log_id),
    CONSTRAINT chains_needs_log FOREIGN KEY (org_id, log_id) REFERENCES logs (org_id, id) ON DELETE CASCADE
) WITH (fillfactor = 50);

-- What the live chain of a log already holds; the highest ord was sent last.
DROP TABLE chain_items;
CREATE TABLE chain_items (
    org_id        uuid NOT NULL,
    log_id        uuid NOT NULL,
    chain_no      bigint NOT NULL,
    kind          text NOT NULL,
    ref           text NOT NULL,
    sha256        bytea NOT NULL,
    size          bigint NOT NULL,
    texts_payload uuid NOT NULL,
    ord           bigint NOT NULL,
    PRIMARY KEY (org_id, log_id, chain_no, kind, ref),
    CONSTRAINT chain_items_needs_log FOREIGN KEY (org_id, log_id) REFERENCES logs (org_id, id) ON DELETE CASCADE
);
CREATE INDEX chain_items_by_ord ON chain_items (org_id, log_id, chain_no, ord);

-- Per org, user and log, and per day since 1970 in UTC. A connection counts in a slot of its own, mostly, so that
-- turns that end at once do not queue up at one row of their org; only one turn of a log ends at a time.
CREATE TABLE token_usage (
    org_id       uuid NOT NULL,
    subject_kind text NOT NULL,
    subject_id   uuid NOT NULL,
    day          bigint NOT NULL,
    slot         smallint NOT NULL,
    tokens       bigint NOT NULL,
    PRIMARY KEY (org_id, subject_kind, subject_id, day, slot)
) WITH (fillfactor = 50);

DO $$
DECLARE
    tenant_table text;
BEGIN
    FOREACH tenant_table IN ARRAY ARRAY['turn_plans', 'turn_chunks', 'chains', 'chain_items', 'token_usage'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant_table);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', tenant_table);
        EXECUTE format(
            $policy$CREATE POLICY tenant ON %I
                USING (org_id = nullif(current_setting('skein.org', true), '')::uuid)$policy$,
            tenant_table
        );
    END LOOP;
END $$;

DROP FUNCTION system_list_pending(uuid, bigint);
CREATE FUNCTION system_list_pending(after_turn uuid, page_size bigint)
RETURNS TABLE (org_id uuid, session_id uuid, turn_id uuid, created_by uuid, started_at timestamptz,
               response_id text, provider_seq bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT t.org_id, s.id, t.id, t.created_by, t.started_at, t.response_id, t.provider_seq
    FROM turns t
    JOIN sessions s ON s.org_id = t.org_id AND s.log_id = t.log_id
    WHERE t.status = 'pending' AND (after_turn IS NULL OR t.id > after_turn)
    ORDER BY t.id
    LIMIT page_size
$$;

-- Tables with a foreign key to a log or a turn go with it.
CREATE OR REPLACE FUNCTION purge_session(doomed uuid) RETURNS boolean
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
        DELETE FROM token_usage WHERE org_id = org AND subject_kind = 'log' AND subject_id = log;
        DELETE FROM logs WHERE org_id = org AND id = log;
    END LOOP;
    RETURN true;
END $$;

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC;
