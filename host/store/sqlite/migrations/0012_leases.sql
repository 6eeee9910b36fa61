-- Grants that outlive one call. open_until is the expiry in nanoseconds, 0 once a person has ended it.
CREATE TABLE grants (
  seq        INTEGER PRIMARY KEY AUTOINCREMENT,
  id         TEXT NOT NULL UNIQUE,
  agent      TEXT NOT NULL,
  tool       TEXT NOT NULL,
  open_until INTEGER NOT NULL,
  body       BLOB NOT NULL
);
CREATE INDEX grants_open ON grants (agent, tool, open_until);

CREATE TABLE elevations (
  conversation TEXT PRIMARY KEY,
  began        INTEGER NOT NULL,
  body         BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE audit (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  at      INTEGER NOT NULL,
  kind    TEXT NOT NULL,
  subject TEXT NOT NULL,
  actor   TEXT NOT NULL,
  session TEXT NOT NULL,
  agent   TEXT NOT NULL,
  tool    TEXT NOT NULL,
  turn    TEXT NOT NULL,
  detail  TEXT NOT NULL
);
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_subject ON audit (subject, id);
