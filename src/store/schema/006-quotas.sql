-- What an organisation may have, where that is not the server's default. 0: any number.
CREATE TABLE quotas (
    org_id TEXT NOT NULL REFERENCES orgs (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    value INTEGER NOT NULL CHECK (value >= 0),
    PRIMARY KEY (org_id, kind)
) STRICT, WITHOUT ROWID;
