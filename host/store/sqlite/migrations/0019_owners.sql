-- The processes that write here. Each start of a host is another incarnation, and takes over what the one before it owned.
CREATE TABLE hosts (
  id          TEXT PRIMARY KEY,
  incarnation TEXT NOT NULL,
  epoch       INTEGER NOT NULL
) WITHOUT ROWID;

-- Who writes for what has moved. What has no row belongs to the host 'home'.
CREATE TABLE owners (
  key   TEXT PRIMARY KEY,
  host  TEXT NOT NULL,
  epoch INTEGER NOT NULL
) WITHOUT ROWID;
