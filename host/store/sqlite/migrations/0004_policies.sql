CREATE TABLE policy_modules (
  digest  TEXT PRIMARY KEY,
  file    TEXT NOT NULL,
  policy  TEXT NOT NULL,
  version TEXT NOT NULL,
  source  TEXT NOT NULL,
  at      INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE policy_history (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  at         INTEGER NOT NULL,
  policy     TEXT NOT NULL,
  path       TEXT NOT NULL,
  outcome    TEXT NOT NULL,
  file       TEXT NOT NULL,
  digest     TEXT NOT NULL,
  version    TEXT NOT NULL,
  source     TEXT NOT NULL,
  over       TEXT NOT NULL,
  now_file   TEXT NOT NULL,
  now_digest TEXT NOT NULL,
  who        TEXT NOT NULL,
  reason     TEXT NOT NULL
);
CREATE INDEX policy_history_policy ON policy_history (policy, id);
