CREATE TABLE egress (
  seq        INTEGER PRIMARY KEY AUTOINCREMENT,
  id         TEXT NOT NULL UNIQUE,
  at         INTEGER NOT NULL,
  kind       TEXT NOT NULL,
  session    TEXT NOT NULL,
  agent      TEXT NOT NULL,
  method     TEXT NOT NULL,
  host       TEXT NOT NULL,
  port       INTEGER NOT NULL,
  addrs      TEXT NOT NULL,
  allowed    INTEGER NOT NULL,
  reason     TEXT NOT NULL,
  credential INTEGER NOT NULL,
  up         INTEGER NOT NULL,
  down       INTEGER NOT NULL,
  ended      INTEGER NOT NULL
);
CREATE INDEX egress_at ON egress (at);
CREATE INDEX egress_session ON egress (session, seq);
