-- Sessions that have an agent process of their own; those at work are found after a crash.
ALTER TABLE sessions ADD COLUMN is_resident boolean NOT NULL DEFAULT false;
CREATE INDEX sessions_resident ON sessions (id) WHERE is_resident AND state IN ('created', 'active');

CREATE FUNCTION system_list_resident(after_session uuid, page_size bigint)
RETURNS TABLE (org_id uuid, session_id uuid, owner_user uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT s.org_id, s.id, s.owner_user
    FROM sessions s
    WHERE s.is_resident AND s.state IN ('created', 'active') AND (after_session IS NULL OR s.id > after_session)
    ORDER BY s.id
    LIMIT page_size
$$;
REVOKE EXECUTE ON FUNCTION system_list_resident(uuid, bigint) FROM PUBLIC;
