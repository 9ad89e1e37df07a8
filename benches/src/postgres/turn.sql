-- One turn in the rows and transactions of the product. Ids are numbers in hexadecimal, so that they grow with time.
\set n :n + 1
\set turn (:n * 64 + :client_id) * 4
\set said :turn + 1
\set answered :turn + 2
\set log 1000000000 + :client_id
\set seq (:n - 1) * 5
BEGIN;
UPDATE logs SET last_seq = :seq + 3, last_at = now(), turn_count = :n, last_turn_id = lpad(to_hex(:turn::bigint), 32, '0')::uuid, last_turn_status = 'pending', last_turn_at = now() WHERE org_id = :org::uuid AND id = lpad(to_hex(:log::bigint), 32, '0')::uuid;
INSERT INTO turns (org_id, id, log_id, number, created_by, ticket_id, status, mode, queued_at, started_at, dispatched_at, conversation_id, instruction_payload, file_count, instruction_summary) VALUES (:org::uuid, lpad(to_hex(:turn::bigint), 32, '0')::uuid, lpad(to_hex(:log::bigint), 32, '0')::uuid, :n, :user::uuid, lpad(to_hex(:log::bigint), 32, '0')::uuid, 'pending', 'ask', now(), now(), now(), lpad(to_hex(:log::bigint), 32, '0')::uuid, lpad(to_hex(:said::bigint), 32, '0')::uuid, 0, :instruction);
INSERT INTO payloads (org_id, id, log_id, sha256, size, media_type, location, event_seq) VALUES (:org::uuid, lpad(to_hex(:said::bigint), 32, '0')::uuid, lpad(to_hex(:log::bigint), 32, '0')::uuid, :hash::bytea, 200, 'text/plain; charset=utf-8', 'event', :seq + 2);
INSERT INTO events (org_id, log_id, seq, turn_id, type, at, message_id, role, data) VALUES (:org::uuid, lpad(to_hex(:log::bigint), 32, '0')::uuid, :seq + 1, lpad(to_hex(:turn::bigint), 32, '0')::uuid, 'turn.created', now(), NULL, NULL, :opened::bytea), (:org::uuid, lpad(to_hex(:log::bigint), 32, '0')::uuid, :seq + 2, lpad(to_hex(:turn::bigint), 32, '0')::uuid, 'message.completed', now(), lpad(to_hex(:said::bigint), 32, '0')::uuid, 'user', :question::bytea), (:org::uuid, lpad(to_hex(:log::bigint), 32, '0')::uuid, :seq + 3, lpad(to_hex(:turn::bigint), 32, '0')::uuid, 'turn.started', now(), NULL, NULL, :opened::bytea);
INSERT INTO audit (org_id, at, actor, action, target, detail) VALUES (:org::uuid, now(), :user::uuid, 'turn.created', 'turn/' || lpad(to_hex(:turn::bigint), 36, '0'), :detail::bytea);
COMMIT;
BEGIN;
UPDATE logs SET last_seq = :seq + 5, last_at = now(), turn_count = :n, last_turn_id = lpad(to_hex(:turn::bigint), 32, '0')::uuid, last_turn_status = 'completed', last_turn_at = now() WHERE org_id = :org::uuid AND id = lpad(to_hex(:log::bigint), 32, '0')::uuid;
UPDATE turns SET status = 'completed', finished_at = now(), answer_summary = :summary, answer_payload = lpad(to_hex(:answered::bigint), 32, '0')::uuid, received_at = now() WHERE org_id = :org::uuid AND id = lpad(to_hex(:turn::bigint), 32, '0')::uuid;
INSERT INTO payloads (org_id, id, log_id, sha256, size, media_type, location, event_seq) VALUES (:org::uuid, lpad(to_hex(:answered::bigint), 32, '0')::uuid, lpad(to_hex(:log::bigint), 32, '0')::uuid, :hash::bytea, 2000, 'text/plain; charset=utf-8', 'event', :seq + 4);
INSERT INTO events (org_id, log_id, seq, turn_id, type, at, message_id, role, data) VALUES (:org::uuid, lpad(to_hex(:log::bigint), 32, '0')::uuid, :seq + 4, lpad(to_hex(:turn::bigint), 32, '0')::uuid, 'message.completed', now(), lpad(to_hex(:answered::bigint), 32, '0')::uuid, 'agent', :answer::bytea), (:org::uuid, lpad(to_hex(:log::bigint), 32, '0')::uuid, :seq + 5, lpad(to_hex(:turn::bigint), 32, '0')::uuid, 'turn.completed', now(), NULL, NULL, :closed::bytea);
INSERT INTO audit (org_id, at, actor, action, target, detail) VALUES (:org::uuid, now(), :user::uuid, 'turn.completed', 'turn/' || lpad(to_hex(:turn::bigint), 36, '0'), :detail::bytea);
COMMIT;
