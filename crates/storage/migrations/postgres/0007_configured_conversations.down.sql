-- Sessions may be bound to them, so they stay as contexts of the org's own.
UPDATE conversation_contexts SET name = conversation_contexts.name || ' ' || conversation_contexts.id
WHERE origin = 'config' AND EXISTS (
    SELECT 1 FROM conversation_contexts o
    WHERE o.org_id = conversation_contexts.org_id AND o.name = conversation_contexts.name AND o.origin = 'api');
DROP FUNCTION system_retire_conversation_contexts(text[]);
DROP FUNCTION system_register_conversation_context(uuid, text, bytea, bytea, timestamptz);
DROP TRIGGER orgs_have_configured_contexts ON orgs;
DROP FUNCTION copy_configured_contexts();
DROP INDEX conversation_contexts_by_name;
ALTER TABLE conversation_contexts DROP COLUMN retired_at;
ALTER TABLE conversation_contexts DROP COLUMN origin;
CREATE UNIQUE INDEX conversation_contexts_by_name ON conversation_contexts (org_id, name);
DROP POLICY system ON conversation_context_versions;
DROP POLICY system ON conversation_contexts;
DROP TABLE configured_conversation_contexts;
