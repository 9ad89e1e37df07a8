ALTER TABLE turns
    DROP COLUMN asked_temperature,
    DROP COLUMN asked_model;
