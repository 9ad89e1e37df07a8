-- What the request itself named, beside what was settled on: a rerun names the same again.
ALTER TABLE turns ADD COLUMN asked_model TEXT;
ALTER TABLE turns ADD COLUMN asked_temperature REAL;
