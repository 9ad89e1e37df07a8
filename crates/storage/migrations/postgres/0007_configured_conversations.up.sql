-- Conversation contexts of the configuration. Every org has a copy of its own, to which sessions and versions refer as to
-- any other; this table says what the copies are of. Names of an org's own contexts are a matter apart.
CREATE TABLE configured_conversation_contexts (
    id         uuid NOT NULL PRIMARY KEY,
    name       text NOT NULL CONSTRAINT configured_conversation_contexts_by_name UNIQUE,
    version    integer NOT NULL,
    spec       bytea NOT NULL,
    spec_hash  bytea NOT NULL,
    created_at timestamptz(3) NOT NULL,
    retired_at timestamptz(3)
);
-- It is for the functions below alone.
ALTER TABLE configured_conversation_contexts ENABLE ROW LEVEL SECURITY;
ALTER TABLE configured_conversation_contexts FORCE ROW LEVEL SECURITY;
CREATE POLICY system ON configured_conversation_contexts TO CURRENT_USER USING (true);
CREATE POLICY system ON conversation_contexts TO CURRENT_USER USING (true);
CREATE POLICY system ON conversation_context_versions TO CURRENT_USER USING (true);

ALTER TABLE conversation_contexts ADD COLUMN origin text NOT NULL DEFAULT 'api';
ALTER TABLE conversation_contexts ADD COLUMN retired_at timestamptz(3);
DROP INDEX conversation_contexts_by_name;
CREATE UNIQUE INDEX conversation_contexts_by_name ON conversation_contexts (org_id, name) WHERE origin = 'api';

-- An org that is made later gets its copies at once.
CREATE FUNCTION copy_configured_contexts() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO conversation_contexts (org_id, id, name, current_version, origin)
    SELECT NEW.id, c.id, c.name, c.version, 'config'
    FROM configured_conversation_contexts c WHERE c.retired_at IS NULL;
    INSERT INTO conversation_context_versions (org_id, context_id, version, spec, spec_hash, created_at)
    SELECT NEW.id, c.id, c.version, c.spec, c.spec_hash, c.created_at
    FROM configured_conversation_contexts c WHERE c.retired_at IS NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER orgs_have_configured_contexts AFTER INSERT ON orgs
    FOR EACH ROW EXECUTE FUNCTION copy_configured_contexts();

-- A name keeps its id; another specification is the next version. What is as it was is not touched.
CREATE FUNCTION system_register_conversation_context(
    proposed_id uuid, context_name text, new_spec bytea, new_hash bytea, made_at timestamptz)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    known configured_conversation_contexts%ROWTYPE;
BEGIN
    INSERT INTO configured_conversation_contexts AS c (id, name, version, spec, spec_hash, created_at)
    VALUES (proposed_id, context_name, 1, new_spec, new_hash, made_at)
    ON CONFLICT (name) DO UPDATE SET
        version = c.version + CASE WHEN c.spec_hash = new_hash THEN 0 ELSE 1 END,
        spec = new_spec, spec_hash = new_hash, retired_at = NULL,
        created_at = CASE WHEN c.spec_hash = new_hash THEN c.created_at ELSE made_at END
        WHERE c.spec_hash <> new_hash OR c.retired_at IS NOT NULL
    RETURNING c.* INTO known;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    INSERT INTO conversation_contexts AS c (org_id, id, name, current_version, origin)
    SELECT o.id, known.id, known.name, known.version, 'config' FROM orgs o
    ON CONFLICT (org_id, id) DO UPDATE SET current_version = excluded.current_version, retired_at = NULL;
    INSERT INTO conversation_context_versions (org_id, context_id, version, spec, spec_hash, created_at)
    SELECT o.id, known.id, known.version, known.spec, known.spec_hash, known.created_at FROM orgs o
    ON CONFLICT DO NOTHING;
END $$;

-- What the configuration has no more is not to be found, except by the sessions that are bound to it.
CREATE FUNCTION system_retire_conversation_contexts(kept text[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH retired AS (
        UPDATE configured_conversation_contexts SET retired_at = now()
        WHERE retired_at IS NULL AND name <> ALL (kept) RETURNING id
    )
    UPDATE conversation_contexts SET retired_at = now()
    WHERE origin = 'config' AND id IN (SELECT id FROM retired)
$$;

REVOKE EXECUTE ON FUNCTION copy_configured_contexts() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION system_register_conversation_context(uuid, text, bytea, bytea, timestamptz) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION system_retire_conversation_contexts(text[]) FROM PUBLIC;
