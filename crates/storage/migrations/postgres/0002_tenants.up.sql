-- Registries of an org's own, orgs made by the instance owner, the sealed audit log, and lists of a million sessions.

-- An org's own contexts in the order of their ids. A version that names an org belongs to that org's context.
ALTER TABLE agent_contexts ADD CONSTRAINT agent_contexts_by_org UNIQUE (org_id, id);
ALTER TABLE agent_context_versions ADD CONSTRAINT agent_context_versions_own_needs_agent
    FOREIGN KEY (org_id, context_id) REFERENCES agent_contexts (org_id, id);

-- The instance owner makes orgs from within their own. Reading them stays closed.
CREATE POLICY found ON orgs FOR INSERT WITH CHECK (nullif(current_setting('skein.org', true), '') IS NOT NULL);

CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit rows are never changed or removed';
END $$;
CREATE TRIGGER audit_keeps_rows BEFORE DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_keeps_all_rows BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_only_seals BEFORE UPDATE ON audit FOR EACH ROW
    WHEN (OLD.chain_no IS NOT NULL OR OLD.chain_hash IS NOT NULL
          OR (NEW.n, NEW.org_id, NEW.at, NEW.actor, NEW.action, NEW.target, NEW.detail)
             IS DISTINCT FROM (OLD.n, OLD.org_id, OLD.at, OLD.actor, OLD.action, OLD.target, OLD.detail))
    EXECUTE FUNCTION refuse_audit_change();

-- Exact totals without a scan: per reader of session_access, and under the highest UUID for the whole org.
-- A connection counts in a slot of its own, mostly, so that creating sessions does not queue up at one row.
-- A total is the sum over the slots; a single slot may be below zero.
CREATE TABLE session_counts (
    org_id    uuid NOT NULL,
    principal uuid NOT NULL,
    audience  text NOT NULL,
    state     text NOT NULL,
    slot      smallint NOT NULL,
    n         bigint NOT NULL,
    PRIMARY KEY (org_id, principal, audience, state, slot)
) WITH (fillfactor = 50);
ALTER TABLE session_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE session_counts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON session_counts
    USING (org_id = nullif(current_setting('skein.org', true), '')::uuid);

-- One trigger for each table and each way in which its rows come, move and go. Rows are counted in one order by all, so
-- that two never wait for each other for ever; an update that moves nothing adds up to zero and counts nothing.
DO $outer$
DECLARE
    counted record;
BEGIN
    FOR counted IN
        SELECT t.name AS counted_table, t.principal, w.event, w.referencing, w.moved
        FROM (VALUES ('sessions', $$'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid$$),
                     ('session_access', 'principal')) AS t (name, principal),
             (VALUES ('INSERT', 'NEW TABLE AS added', 'SELECT 1 AS step, * FROM added'),
                     ('DELETE', 'OLD TABLE AS removed', 'SELECT -1 AS step, * FROM removed'),
                     ('UPDATE', 'OLD TABLE AS removed NEW TABLE AS added',
                      'SELECT -1 AS step, * FROM removed UNION ALL SELECT 1, * FROM added')
             ) AS w (event, referencing, moved)
    LOOP
        EXECUTE format(
            $template$
            CREATE FUNCTION %1$I() RETURNS trigger LANGUAGE plpgsql AS $body$
            BEGIN
                INSERT INTO session_counts AS c (org_id, principal, audience, state, slot, n)
                SELECT org_id, %4$s, CASE WHEN is_public THEN 'public' ELSE 'private' END, state,
                       pg_backend_pid() %% 32, sum(step)
                FROM (%5$s) moved
                GROUP BY 1, 2, 3, 4 HAVING sum(step) <> 0 ORDER BY 1, 2, 3, 4
                ON CONFLICT (org_id, principal, audience, state, slot) DO UPDATE SET n = c.n + excluded.n;
                RETURN NULL;
            END $body$;
            CREATE TRIGGER %1$I AFTER %3$s ON %2$I REFERENCING %6$s
                FOR EACH STATEMENT EXECUTE FUNCTION %1$I()
            $template$,
            lower(format('count_%s_%s', counted.counted_table, counted.event)),
            counted.counted_table, counted.event, counted.principal, counted.moved, counted.referencing
        );
    END LOOP;
END $outer$;

-- The principal of zeros is everyone in the org: a public session has one access row for all of them.
-- Row-level security would hide the rows of every org from this step, so it is off for its tables meanwhile.
ALTER TABLE sessions NO FORCE ROW LEVEL SECURITY;
ALTER TABLE session_access NO FORCE ROW LEVEL SECURITY;
ALTER TABLE session_counts NO FORCE ROW LEVEL SECURITY;
INSERT INTO session_access (org_id, principal, session_id, via, state, is_public, created_at)
SELECT org_id, '00000000-0000-0000-0000-000000000000', id, 'public', state, is_public, created_at
FROM sessions WHERE is_public;
DELETE FROM session_counts;
INSERT INTO session_counts (org_id, principal, audience, state, slot, n)
SELECT org_id, principal, CASE WHEN is_public THEN 'public' ELSE 'private' END, state, 0, count(*)
FROM (SELECT org_id, principal, is_public, state FROM session_access
      UNION ALL
      SELECT org_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff', is_public, state FROM sessions) counted
GROUP BY 1, 2, 3, 4;
ALTER TABLE sessions FORCE ROW LEVEL SECURITY;
ALTER TABLE session_access FORCE ROW LEVEL SECURITY;
ALTER TABLE session_counts FORCE ROW LEVEL SECURITY;

CREATE POLICY system ON audit FOR SELECT TO CURRENT_USER USING (true);

CREATE FUNCTION system_find_org(wanted uuid)
RETURNS TABLE (id uuid, name text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT o.id, o.name FROM orgs o WHERE o.id = wanted AND o.deleted_at IS NULL
$$;

DROP FUNCTION system_find_instance_owner();
CREATE FUNCTION system_find_instance_owner()
RETURNS TABLE (id uuid, org_id uuid, name text, role text, instance_owner boolean, disabled_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT u.id, u.org_id, u.name, u.role, u.instance_owner, u.disabled_at
    FROM users u WHERE u.instance_owner ORDER BY u.id LIMIT 1
$$;

-- Which orgs have audit rows to be sealed; the rows themselves are read and sealed org by org.
CREATE FUNCTION system_list_unsealed(after_org uuid, page_size bigint)
RETURNS TABLE (org_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT DISTINCT a.org_id FROM audit a
    WHERE a.chain_no IS NULL AND (after_org IS NULL OR a.org_id > after_org)
    ORDER BY a.org_id LIMIT page_size
$$;

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC;
