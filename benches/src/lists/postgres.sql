-- A session a second, the newest last; ids grow with time. Words in braces are numbers, put in by the program.
-- Neither foreign keys are checked nor sessions counted one by one.
SET session_replication_role = replica;
CREATE TEMP TABLE seed AS
WITH made AS (
    SELECT n, to_timestamp(1790000000 + n) AS at,
        lpad(to_hex(1790000000000 + n * 1000), 12, '0') AS time,
        (n + n / 1000) * 61 % 100 AS mix,
        n * {members} / {sessions} <> (n + 1) * {members} / {sessions} AS is_members,
        n * {public} / {sessions} <> (n + 1) * {public} / {sessions} AS is_public
    FROM generate_series(0::bigint, {sessions} - 1) AS n
)
SELECT (time || '70008000' || lpad(to_hex(n), 12, '0'))::uuid AS id,
    (time || '70009000' || lpad(to_hex(n), 12, '0'))::uuid AS log,
    (time || '7000a000' || lpad(to_hex(n), 12, '0'))::uuid AS task,
    CASE WHEN mix < 10 THEN 'created' WHEN mix < 35 THEN 'active' WHEN mix < 40 THEN 'suspended'
         WHEN mix < 80 THEN 'completed' WHEN mix < 90 THEN 'cancelled' ELSE 'failed' END AS state,
    CASE WHEN is_members THEN member.id ELSE owner.id END AS owner,
    is_public, at, owner.org_id AS org, agent.id AS agent, agent.current_version AS version, n
FROM made
JOIN users owner ON owner.name = 'owner'
JOIN users member ON member.name = 'member'
JOIN agent_contexts agent ON agent.name = 'bench';

INSERT INTO logs (org_id, id) SELECT org, log FROM seed;
INSERT INTO sessions (org_id, id, log_id, owner_user, created_by, state, state_reason, revision, name, is_public,
    is_draft, agent_context_id, agent_context_version, interface, task_id, checkpoint_id, created_at, updated_at)
SELECT org, id, log, owner, owner, state, CASE WHEN state IN ('suspended', 'failed') THEN 'seeded' END, 1,
    'session ' || n, is_public, false, agent, version, 'api', task, CASE WHEN state = 'suspended' THEN task END, at, at
FROM seed;
INSERT INTO session_segments (org_id, session_id, from_seq, log_id, first_turn) SELECT org, id, 1, log, 1 FROM seed;
INSERT INTO session_access (org_id, principal, session_id, via, state, is_public, created_at)
SELECT org, owner, id, 'owner', state, is_public, at FROM seed
UNION ALL
SELECT org, '00000000-0000-0000-0000-000000000000', id, 'public', state, is_public, at FROM seed WHERE is_public;
INSERT INTO tickets (org_id, id, session_id, kind, task_type, source, initiated_by, status, created_at)
SELECT org, task, id, 'task', 'session', 'api', owner, 'running', at FROM seed;
INSERT INTO session_counts (org_id, principal, audience, state, slot, n)
SELECT org_id, principal, CASE WHEN is_public THEN 'public' ELSE 'private' END, state, 0, count(*)
FROM (SELECT org_id, principal, is_public, state FROM session_access
      UNION ALL
      SELECT org_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff', is_public, state FROM sessions) counted
GROUP BY 1, 2, 3, 4;
