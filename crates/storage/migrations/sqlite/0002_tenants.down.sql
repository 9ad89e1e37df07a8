DROP INDEX agent_contexts_by_org;
