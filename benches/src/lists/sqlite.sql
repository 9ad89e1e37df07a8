-- A session a second, the newest last; ids grow with time. Words in braces are numbers, put in by the program.
CREATE TEMP TABLE seed AS
WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {sessions}),
made AS (
    SELECT n, 1790000000000 + n * 1000 AS at,
        printf('%012x', 1790000000000 + n * 1000) AS time,
        (n + n / 1000) * 61 % 100 AS mix,
        n * {members} / {sessions} <> (n + 1) * {members} / {sessions} AS is_members,
        n * {public} / {sessions} <> (n + 1) * {public} / {sessions} AS is_public
    FROM numbers
)
SELECT unhex(time || '70008000' || printf('%012x', n)) AS id,
    unhex(time || '70009000' || printf('%012x', n)) AS log,
    unhex(time || '7000a000' || printf('%012x', n)) AS task,
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
SELECT org, id, log, owner, owner, state, iif(state IN ('suspended', 'failed'), 'seeded', NULL), 1,
    'session ' || n, is_public, 0, agent, version, 'api', task, iif(state = 'suspended', task, NULL), at, at
FROM seed;
INSERT INTO session_segments (org_id, session_id, from_seq, log_id, first_turn) SELECT org, id, 1, log, 1 FROM seed;
INSERT INTO session_access (org_id, principal, session_id, via, state, is_public, created_at)
SELECT org, owner, id, 'owner', state, is_public, at FROM seed
UNION ALL
SELECT org, zeroblob(16), id, 'public', state, is_public, at FROM seed WHERE is_public;
INSERT INTO tickets (org_id, id, session_id, kind, task_type, source, initiated_by, status, created_at)
SELECT org, task, id, 'task', 'session', 'api', owner, 'running', at FROM seed;
