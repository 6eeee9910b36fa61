-- Messages that show answers under way, by the key of the reply that completes them.
CREATE TABLE drafts (
  key        TEXT PRIMARY KEY,
  turn       TEXT NOT NULL,
  message_id TEXT NOT NULL,
  sent_at    INTEGER NOT NULL
) WITHOUT ROWID;

ALTER TABLE outbox ADD COLUMN parts BLOB NOT NULL DEFAULT '[]';
ALTER TABLE outbox ADD COLUMN part INTEGER NOT NULL DEFAULT 0;

CREATE INDEX inbox_noted ON inbox (id) WHERE state = 'noted';
