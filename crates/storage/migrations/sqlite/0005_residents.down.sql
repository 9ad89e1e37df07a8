DROP INDEX sessions_resident;
ALTER TABLE sessions DROP COLUMN is_resident;
