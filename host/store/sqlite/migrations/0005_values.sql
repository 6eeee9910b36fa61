-- Keys are blobs: they are compared and counted by their bytes.
CREATE TABLE plugin_values (
  instance TEXT NOT NULL,
  key      BLOB NOT NULL,
  value    BLOB NOT NULL
);
CREATE UNIQUE INDEX plugin_values_key ON plugin_values (instance, key);

-- What the rows above add up to.
CREATE TABLE plugin_values_usage (
  instance TEXT PRIMARY KEY,
  keys     INTEGER NOT NULL,
  bytes    INTEGER NOT NULL
) WITHOUT ROWID;
