-- Tokens that open a port of a sandbox for a while. Those of signed URLs outlive a stop; the others end with it, in the
-- commit that says so.
CREATE TABLE passes (
    token TEXT PRIMARY KEY,
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    port INTEGER NOT NULL,
    is_signed INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX passes_by_sandbox ON passes (sandbox_id);

CREATE TRIGGER sandboxes_end_passes AFTER UPDATE OF state ON sandboxes
WHEN NEW.state IN ('stopped', 'archived', 'error')
BEGIN
    DELETE FROM passes WHERE sandbox_id = NEW.id AND is_signed = 0;
END;

-- The one token that opened every port of a sandbox.
ALTER TABLE sandboxes DROP COLUMN token;
