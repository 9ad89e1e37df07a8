DROP FUNCTION system_list_resident(uuid, bigint);
DROP INDEX sessions_resident;
ALTER TABLE sessions DROP COLUMN is_resident;
