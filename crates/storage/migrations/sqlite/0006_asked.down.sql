ALTER TABLE turns DROP COLUMN asked_temperature;
ALTER TABLE turns DROP COLUMN asked_model;
