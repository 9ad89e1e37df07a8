-- Texts that were uploaded to sessions. They belong to a log, so that forks see them too.
CREATE TABLE documents (
    org_id     uuid NOT NULL,
    id         uuid NOT NULL,
    log_id     uuid NOT NULL,
    name       text NOT NULL,
    media_type text NOT NULL,
    payload_id uuid NOT NULL,
    size       bigint NOT NULL,
    created_by uuid NOT NULL,
    created_at timestamptz(3) NOT NULL,
    PRIMARY KEY (org_id, id),
    CONSTRAINT documents_needs_log FOREIGN KEY (org_id, log_id) REFERENCES logs (org_id, id) ON DELETE CASCADE
);
CREATE INDEX documents_by_log ON documents (org_id, log_id, id);

ALTER TABLE documents ENABLE ROW LEVEL SECURITY;
ALTER TABLE documents FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON documents USING (org_id = nullif(current_setting('skein.org', true), '')::uuid);
