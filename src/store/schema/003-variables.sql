-- What the Dockerfile of a snapshot set with ENV, as an object; NULL: nothing.
ALTER TABLE snapshots ADD COLUMN env TEXT;
