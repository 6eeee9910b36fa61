CREATE TABLE inbox (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  channel      TEXT NOT NULL,
  event_id     TEXT NOT NULL,
  message      BLOB NOT NULL,
  state        TEXT NOT NULL,
  note         TEXT NOT NULL DEFAULT '',
  UNIQUE (channel, event_id)
);
CREATE INDEX inbox_new ON inbox (id) WHERE state = 'new';

CREATE TABLE sessions (
  key   TEXT PRIMARY KEY,
  agent TEXT NOT NULL,
  turns INTEGER NOT NULL,
  last  INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE turns (
  id           TEXT PRIMARY KEY,
  session      TEXT NOT NULL,
  agent        TEXT NOT NULL,
  channel      TEXT NOT NULL,
  conversation TEXT NOT NULL,
  place        BLOB NOT NULL,
  sender       TEXT NOT NULL,
  inbox        BLOB NOT NULL,
  state        TEXT NOT NULL,
  error        TEXT NOT NULL,
  started      INTEGER NOT NULL,
  ended        INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX turns_session ON turns (session, id);
CREATE INDEX turns_conversation ON turns (channel, conversation, id);
CREATE INDEX turns_running ON turns (id) WHERE state = 'running';

CREATE TABLE steps (
  turn TEXT NOT NULL,
  seq  INTEGER NOT NULL,
  kind TEXT NOT NULL,
  data BLOB NOT NULL,
  at   INTEGER NOT NULL,
  PRIMARY KEY (turn, seq)
) WITHOUT ROWID;

CREATE TABLE outbox (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  key          TEXT NOT NULL UNIQUE,
  turn         TEXT NOT NULL,
  reply        BLOB NOT NULL,
  state        TEXT NOT NULL,
  attempts     INTEGER NOT NULL DEFAULT 0,
  next_try     INTEGER NOT NULL DEFAULT 0,
  note         TEXT NOT NULL DEFAULT '',
  platform_ids BLOB NOT NULL DEFAULT '[]'
);
CREATE INDEX outbox_unsent ON outbox (id) WHERE state IN ('pending', 'sending');
CREATE INDEX outbox_turn ON outbox (turn);

CREATE TABLE approvals (
  id    TEXT PRIMARY KEY,
  state TEXT NOT NULL,
  body  BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX approvals_state ON approvals (state, id);

CREATE TABLE notes (
  id      INTEGER PRIMARY KEY,
  agent   TEXT NOT NULL,
  key     TEXT NOT NULL,
  text    TEXT NOT NULL,
  sender  TEXT NOT NULL,
  labels  BLOB NOT NULL,
  updated INTEGER NOT NULL,
  UNIQUE (agent, key)
);
CREATE VIRTUAL TABLE notes_text USING fts5 (key, text, content = 'notes', content_rowid = 'id');
CREATE TRIGGER notes_insert AFTER INSERT ON notes BEGIN
  INSERT INTO notes_text (rowid, key, text) VALUES (new.id, new.key, new.text);
END;
CREATE TRIGGER notes_delete AFTER DELETE ON notes BEGIN
  INSERT INTO notes_text (notes_text, rowid, key, text) VALUES ('delete', old.id, old.key, old.text);
END;
CREATE TRIGGER notes_update AFTER UPDATE ON notes BEGIN
  INSERT INTO notes_text (notes_text, rowid, key, text) VALUES ('delete', old.id, old.key, old.text);
  INSERT INTO notes_text (rowid, key, text) VALUES (new.id, new.key, new.text);
END;

CREATE TABLE decisions (
  id     INTEGER PRIMARY KEY AUTOINCREMENT,
  at     INTEGER NOT NULL,
  kind   TEXT NOT NULL,
  turn   TEXT NOT NULL,
  policy TEXT NOT NULL,
  digest TEXT NOT NULL,
  frame  BLOB,
  calls  BLOB,
  answer TEXT NOT NULL,
  reason TEXT NOT NULL,
  error  TEXT NOT NULL,
  fuel   INTEGER NOT NULL,
  nanos  INTEGER NOT NULL
);
CREATE INDEX decisions_turn ON decisions (turn);
CREATE INDEX decisions_at ON decisions (at);
