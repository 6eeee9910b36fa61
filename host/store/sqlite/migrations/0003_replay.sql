-- All that it takes to ask a recorded decision again. Rows from before have an empty file, and neither arguments nor whole texts.
ALTER TABLE decisions ADD COLUMN file TEXT NOT NULL DEFAULT '';
ALTER TABLE decisions ADD COLUMN raw INTEGER NOT NULL DEFAULT 0;
ALTER TABLE decisions ADD COLUMN rule INTEGER NOT NULL DEFAULT 0;
ALTER TABLE decisions ADD COLUMN args BLOB;
ALTER TABLE decisions ADD COLUMN text INTEGER;
CREATE INDEX decisions_policy ON decisions (policy, at);

-- A long message is asked about again and again, by every policy and for every tool call of its turn; it is kept once.
CREATE TABLE decision_texts (
  id     INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE,
  body   TEXT NOT NULL
);

CREATE TABLE shadow_differences (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  at      INTEGER NOT NULL,
  policy  TEXT NOT NULL,
  digest  TEXT NOT NULL,
  file    TEXT NOT NULL,
  against TEXT NOT NULL,
  kind    TEXT NOT NULL,
  was     TEXT NOT NULL,
  was_why TEXT NOT NULL,
  now     TEXT NOT NULL,
  now_why TEXT NOT NULL,
  channel TEXT NOT NULL,
  sender  TEXT NOT NULL,
  tool    TEXT NOT NULL
);
CREATE INDEX shadow_differences_policy ON shadow_differences (policy, at);
CREATE INDEX shadow_differences_at ON shadow_differences (at);

CREATE TABLE shadow_counts (
  day     INTEGER NOT NULL,
  policy  TEXT NOT NULL,
  digest  TEXT NOT NULL,
  file    TEXT NOT NULL,
  against TEXT NOT NULL,
  outcome TEXT NOT NULL,
  count   INTEGER NOT NULL,
  PRIMARY KEY (day, policy, digest, against, outcome)
) WITHOUT ROWID;
