-- How much lies in a volume, as last weighed.
ALTER TABLE volumes ADD COLUMN size_bytes INTEGER NOT NULL DEFAULT 0;
