-- Conversation contexts of the configuration. Every org has a copy of its own, to which sessions and versions refer as to
-- any other; this table says what the copies are of. Names of an org's own contexts are a matter apart.
CREATE TABLE configured_conversation_contexts (
    id         BLOB NOT NULL PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    version    INTEGER NOT NULL,
    spec       BLOB NOT NULL,
    spec_hash  BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    retired_at INTEGER
) STRICT, WITHOUT ROWID;

ALTER TABLE conversation_contexts ADD COLUMN origin TEXT NOT NULL DEFAULT 'api';
ALTER TABLE conversation_contexts ADD COLUMN retired_at INTEGER;
DROP INDEX conversation_contexts_by_name;
CREATE UNIQUE INDEX conversation_contexts_by_name ON conversation_contexts (org_id, name) WHERE origin = 'api';

-- An org that is made later gets its copies at once.
CREATE TRIGGER orgs_have_configured_contexts AFTER INSERT ON orgs BEGIN
    INSERT INTO conversation_contexts (org_id, id, name, current_version, origin)
    SELECT NEW.id, c.id, c.name, c.version, 'config'
    FROM configured_conversation_contexts c WHERE c.retired_at IS NULL;
    INSERT INTO conversation_context_versions (org_id, context_id, version, spec, spec_hash, created_at)
    SELECT NEW.id, c.id, c.version, c.spec, c.spec_hash, c.created_at
    FROM configured_conversation_contexts c WHERE c.retired_at IS NULL;
END;
