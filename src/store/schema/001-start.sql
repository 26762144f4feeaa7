-- The first tables. Times are milliseconds since 1970, JSON columns are objects or arrays as text.
CREATE TABLE orgs (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A key itself is never stored: hash is its SHA-256, hint what a list may show. Revoking deletes the row.
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL REFERENCES orgs (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    hint TEXT NOT NULL,
    is_admin INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    used_ms INTEGER,
    UNIQUE (org_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE volumes (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL REFERENCES orgs (id),
    name TEXT,
    state TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    used_ms INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX volumes_by_name ON volumes (org_id, name) WHERE name IS NOT NULL;

CREATE TABLE snapshots (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL REFERENCES orgs (id),
    name TEXT NOT NULL,
    image TEXT NOT NULL,
    image_ref TEXT,
    state TEXT NOT NULL,
    error_reason TEXT,
    entrypoint TEXT,
    source_id TEXT,
    cpu_milli INTEGER NOT NULL,
    memory_bytes INTEGER NOT NULL,
    disk_bytes INTEGER NOT NULL,
    size_bytes INTEGER,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    used_ms INTEGER,
    UNIQUE (org_id, name)
) STRICT, WITHOUT ROWID;

-- name is NULL from the moment a delete is accepted, so that it can be taken again.
CREATE TABLE sandboxes (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL REFERENCES orgs (id),
    name TEXT,
    state TEXT NOT NULL,
    snapshot TEXT,
    image TEXT NOT NULL,
    user TEXT NOT NULL,
    target TEXT NOT NULL,
    env TEXT NOT NULL,
    labels TEXT NOT NULL,
    mounts TEXT NOT NULL,
    token TEXT NOT NULL,
    error_reason TEXT,
    dockerfile TEXT,
    allow_list TEXT,
    domain_list TEXT,
    parent_id TEXT,
    is_public INTEGER NOT NULL,
    is_blocked INTEGER NOT NULL,
    cpu_milli INTEGER NOT NULL,
    memory_bytes INTEGER NOT NULL,
    disk_bytes INTEGER NOT NULL,
    auto_stop_min INTEGER NOT NULL,
    auto_archive_min INTEGER NOT NULL,
    auto_delete_min INTEGER NOT NULL,
    destroy_at_ms INTEGER,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    active_ms INTEGER NOT NULL,
    stopped_ms INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX sandboxes_by_name ON sandboxes (org_id, name) WHERE name IS NOT NULL;
