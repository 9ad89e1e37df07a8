-- Sessions may be bound to them, so they stay as contexts of the org's own.
UPDATE conversation_contexts SET name = name || ' ' || lower(hex(id))
WHERE origin = 'config' AND EXISTS (
    SELECT 1 FROM conversation_contexts o
    WHERE o.org_id = conversation_contexts.org_id AND o.name = conversation_contexts.name AND o.origin = 'api');
DROP TRIGGER orgs_have_configured_contexts;
DROP INDEX conversation_contexts_by_name;
ALTER TABLE conversation_contexts DROP COLUMN retired_at;
ALTER TABLE conversation_contexts DROP COLUMN origin;
CREATE UNIQUE INDEX conversation_contexts_by_name ON conversation_contexts (org_id, name);
DROP TABLE configured_conversation_contexts;
