-- A sandbox uses its snapshot and its volumes from the moment it is there: in the same commit, whoever inserts it.
CREATE TRIGGER sandboxes_use_snapshot AFTER INSERT ON sandboxes WHEN NEW.snapshot IS NOT NULL
BEGIN
    UPDATE snapshots SET used_ms = NEW.created_ms WHERE org_id = NEW.org_id AND name = NEW.snapshot;
END;
CREATE TRIGGER sandboxes_use_volumes AFTER INSERT ON sandboxes WHEN NEW.mounts <> '[]'
BEGIN
    -- Our own JSON: in a path quotes are escaped, so this is found as a key and its value only. (json_each() is not
    -- to be had here: schemas are not trusted with virtual tables.)
    UPDATE volumes SET used_ms = NEW.created_ms
    WHERE org_id = NEW.org_id AND instr(NEW.mounts, '"volumeId":"' || id || '"') > 0;
END;
