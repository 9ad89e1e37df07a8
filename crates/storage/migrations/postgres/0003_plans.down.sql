DROP FUNCTION system_list_pending(uuid, bigint);
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
REVOKE EXECUTE ON FUNCTION system_list_pending(uuid, bigint) FROM PUBLIC;

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
        DELETE FROM logs WHERE org_id = org AND id = log;
    END LOOP;
    RETURN true;
END $$;

DROP TABLE token_usage;
DROP TABLE chains;

DROP TABLE chain_items;
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

DROP TABLE turn_chunks;
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

DO $$
DECLARE
    tenant_table text;
BEGIN
    FOREACH tenant_table IN ARRAY ARRAY['turn_chunks', 'chain_items'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant_table);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', tenant_table);
        EXECUTE format(
            $policy$CREATE POLICY tenant ON %I
                USING (org_id = nullif(current_setting('skein.org', true), '')::uuid)$policy$,
            tenant_table
        );
    END LOOP;
END $$;

DROP TABLE turn_plans;

ALTER TABLE turns
    DROP COLUMN chunk_count,
    DROP COLUMN bundle_payload,
    DROP COLUMN inputs_payload,
    DROP COLUMN temperature;
