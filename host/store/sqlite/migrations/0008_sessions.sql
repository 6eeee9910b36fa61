-- What is kept of places beyond their sessions: which beginning is the latest, and what people chose. A place without a row is in
-- its first epoch, whose sessions are called as they were before there were others.
CREATE TABLE places (
  key   TEXT PRIMARY KEY,
  epoch INTEGER NOT NULL,
  began INTEGER NOT NULL,
  why   TEXT NOT NULL,
  agent TEXT NOT NULL,
  tier  TEXT NOT NULL
) WITHOUT ROWID;

-- The kill switch, one row at most.
CREATE TABLE halt (
  id      INTEGER PRIMARY KEY CHECK (id = 1),
  stopped INTEGER NOT NULL,
  reason  TEXT NOT NULL,
  by      TEXT NOT NULL,
  since   INTEGER NOT NULL
);
