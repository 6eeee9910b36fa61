-- Notes get a scope, the person that they are about, and the turn that they come from.
DROP TRIGGER notes_insert;
DROP TRIGGER notes_delete;
DROP TRIGGER notes_update;
DROP TABLE notes_text;
ALTER TABLE notes RENAME TO notes_before;
CREATE TABLE notes (
  id      INTEGER PRIMARY KEY,
  agent   TEXT NOT NULL,
  person  TEXT NOT NULL,
  key     TEXT NOT NULL,
  text    TEXT NOT NULL,
  sender  TEXT NOT NULL,
  turn    TEXT NOT NULL,
  labels  BLOB NOT NULL,
  updated INTEGER NOT NULL,
  extracted INTEGER NOT NULL DEFAULT 0,
  UNIQUE (agent, person, key)
);
CREATE INDEX notes_person ON notes (person, agent);
INSERT INTO notes (id, agent, person, key, text, sender, turn, labels, updated)
  SELECT id, agent, '', key, text, sender, '', labels, updated FROM notes_before;
DROP TABLE notes_before;
CREATE VIRTUAL TABLE notes_text USING fts5 (key, text, content = 'notes', content_rowid = 'id');
INSERT INTO notes_text (notes_text, rank) VALUES ('secure-delete', 1);
INSERT INTO notes_text (notes_text) VALUES ('rebuild');
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

-- Ended turns from which what is worth remembering is still to be taken.
CREATE TABLE extractions (
  turn     TEXT PRIMARY KEY,
  attempts INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE summaries (
  session TEXT NOT NULL,
  id      TEXT NOT NULL,
  through TEXT NOT NULL,
  turns   INTEGER NOT NULL,
  text    TEXT NOT NULL,
  labels  BLOB NOT NULL,
  made_in TEXT NOT NULL,
  tokens  INTEGER NOT NULL,
  cost    REAL NOT NULL,
  at      INTEGER NOT NULL,
  PRIMARY KEY (session, id)
) WITHOUT ROWID;

CREATE TABLE results (
  session TEXT NOT NULL,
  id      TEXT NOT NULL,
  tool    TEXT NOT NULL,
  text    TEXT NOT NULL,
  labels  BLOB NOT NULL,
  at      INTEGER NOT NULL,
  PRIMARY KEY (session, id)
) WITHOUT ROWID;
