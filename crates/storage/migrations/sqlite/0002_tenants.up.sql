-- An org's own contexts in the order of their ids, without walking past those of all others.
CREATE INDEX agent_contexts_by_org ON agent_contexts (org_id, id);
