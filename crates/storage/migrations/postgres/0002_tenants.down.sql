DROP FUNCTION system_list_unsealed(uuid, bigint);
DROP FUNCTION system_find_org(uuid);
DROP FUNCTION system_find_instance_owner();
CREATE FUNCTION system_find_instance_owner()
RETURNS TABLE (id uuid, org_id uuid, name text, role text, instance_owner boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT u.id, u.org_id, u.name, u.role, u.instance_owner
    FROM users u WHERE u.instance_owner ORDER BY u.id LIMIT 1
$$;
REVOKE EXECUTE ON FUNCTION system_find_instance_owner() FROM PUBLIC;
DROP POLICY system ON audit;

DROP FUNCTION count_sessions_insert() CASCADE;
DROP FUNCTION count_sessions_delete() CASCADE;
DROP FUNCTION count_sessions_update() CASCADE;
DROP FUNCTION count_session_access_insert() CASCADE;
DROP FUNCTION count_session_access_delete() CASCADE;
DROP FUNCTION count_session_access_update() CASCADE;
DROP TABLE session_counts;
ALTER TABLE session_access NO FORCE ROW LEVEL SECURITY;
DELETE FROM session_access WHERE principal = '00000000-0000-0000-0000-000000000000';
ALTER TABLE session_access FORCE ROW LEVEL SECURITY;

DROP TRIGGER audit_only_seals ON audit;
DROP TRIGGER audit_keeps_all_rows ON audit;
DROP TRIGGER audit_keeps_rows ON audit;
DROP FUNCTION refuse_audit_change();

DROP POLICY found ON orgs;
ALTER TABLE agent_context_versions DROP CONSTRAINT agent_context_versions_own_needs_agent;
ALTER TABLE agent_contexts DROP CONSTRAINT agent_contexts_by_org;
