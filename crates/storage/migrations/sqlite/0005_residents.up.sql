-- Sessions that have an agent process of their own; those at work are found after a crash.
ALTER TABLE sessions ADD COLUMN is_resident INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sessions_resident ON sessions (id) WHERE is_resident = 1 AND state IN ('created', 'active');
