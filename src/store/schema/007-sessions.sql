-- Sessions of sandboxes that run: what a server that is started again must know to go on with them. They end with the run.
CREATE TABLE sessions (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    mark TEXT NOT NULL,
    PRIMARY KEY (sandbox_id, id)
) STRICT, WITHOUT ROWID;

-- exit_code is NULL until it has ended, told whether a long one was passed on to the shell.
CREATE TABLE session_commands (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    sandbox_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    text TEXT NOT NULL,
    nonce TEXT NOT NULL,
    is_async INTEGER NOT NULL,
    no_echo INTEGER NOT NULL,
    told INTEGER NOT NULL DEFAULT 0,
    exit_code INTEGER,
    FOREIGN KEY (sandbox_id, session_id) REFERENCES sessions (sandbox_id, id) ON DELETE CASCADE
) STRICT;
CREATE INDEX session_commands_by_session ON session_commands (sandbox_id, session_id);

CREATE TABLE session_echoes (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    command_id TEXT NOT NULL REFERENCES session_commands (id) ON DELETE CASCADE,
    at INTEGER NOT NULL,
    data TEXT NOT NULL
) STRICT;
CREATE INDEX session_echoes_by_command ON session_echoes (command_id);

-- Terminals and interpreter contexts, which end with the server: whoever asks for one is told so.
CREATE TABLE session_others (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (sandbox_id, kind, id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER sandboxes_end_sessions AFTER UPDATE OF state ON sandboxes
WHEN NEW.state IN ('stopped', 'archived', 'error')
BEGIN
    DELETE FROM sessions WHERE sandbox_id = NEW.id;
    DELETE FROM session_others WHERE sandbox_id = NEW.id;
END;
