-- Messages that show answers under way, by the first message that is answered.
CREATE TABLE drafts (
  inbox      INTEGER PRIMARY KEY,
  key        TEXT NOT NULL,
  message_id TEXT NOT NULL,
  sent_at    INTEGER NOT NULL
);

ALTER TABLE outbox ADD COLUMN parts BLOB NOT NULL DEFAULT '[]';
ALTER TABLE outbox ADD COLUMN part INTEGER NOT NULL DEFAULT 0;

CREATE INDEX inbox_noted ON inbox (id) WHERE state = 'noted';
