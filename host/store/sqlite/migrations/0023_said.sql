-- All that people and agents have said, to be searched. Triggers keep it like the steps of turns that were not delegated.
CREATE TABLE said (
  id   INTEGER PRIMARY KEY AUTOINCREMENT,
  turn TEXT NOT NULL,
  seq  INTEGER NOT NULL,
  who  TEXT NOT NULL,
  key  TEXT NOT NULL,
  at   INTEGER NOT NULL,
  text TEXT NOT NULL
);
CREATE INDEX said_turn ON said (turn, seq);
CREATE VIRTUAL TABLE said_text USING fts5 (text, content = 'said', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2');
INSERT INTO said_text (said_text, rank) VALUES ('secure-delete', 1);
CREATE TRIGGER said_insert AFTER INSERT ON said BEGIN
  INSERT INTO said_text (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER said_delete AFTER DELETE ON said BEGIN
  INSERT INTO said_text (said_text, rowid, text) VALUES ('delete', old.id, old.text);
END;

CREATE TRIGGER said_user AFTER INSERT ON steps WHEN new.kind = 'user' BEGIN
  INSERT INTO said (turn, seq, who, key, at, text)
    SELECT new.turn, new.seq, 'user', coalesce(json_extract(value, '$.event'), ''), new.at, json_extract(value, '$.text')
    FROM json_each(CAST(new.data AS TEXT), '$.said')
    WHERE coalesce(json_extract(value, '$.text'), '') <> '' AND EXISTS (SELECT 1 FROM turns WHERE id = new.turn AND parent = '');
END;
CREATE TRIGGER said_model AFTER INSERT ON steps WHEN new.kind = 'model' BEGIN
  INSERT INTO said (turn, seq, who, key, at, text)
    SELECT new.turn, new.seq, 'agent', new.turn || '/0', new.at, json_extract(CAST(new.data AS TEXT), '$.message.text')
    WHERE coalesce(json_extract(CAST(new.data AS TEXT), '$.message.text'), '') <> ''
      AND EXISTS (SELECT 1 FROM turns WHERE id = new.turn AND parent = '');
END;
CREATE TRIGGER said_gone AFTER DELETE ON steps WHEN old.kind IN ('user', 'model') BEGIN
  DELETE FROM said WHERE turn = old.turn AND seq = old.seq;
END;

INSERT INTO said (turn, seq, who, key, at, text)
  SELECT turn, seq, who, key, at, text FROM (
    SELECT s.turn, s.seq, 0 AS n, 'agent' AS who, s.turn || '/0' AS key, s.at, json_extract(CAST(s.data AS TEXT), '$.message.text') AS text
    FROM steps s JOIN turns t ON t.id = s.turn WHERE s.kind = 'model' AND t.parent = '' AND json_valid(CAST(s.data AS TEXT))
    UNION ALL
    SELECT s.turn, s.seq, e.key, 'user', coalesce(json_extract(e.value, '$.event'), ''), s.at, json_extract(e.value, '$.text')
    FROM steps s JOIN turns t ON t.id = s.turn, json_each(CAST(s.data AS TEXT), '$.said') e WHERE s.kind = 'user' AND t.parent = '')
  WHERE coalesce(text, '') <> '' ORDER BY turn, seq, n;

-- Titles of conversations. One that was made of a message goes with the turn of the message.
CREATE TABLE titles (
  channel      TEXT NOT NULL,
  conversation TEXT NOT NULL,
  title        TEXT NOT NULL,
  turn         TEXT NOT NULL,
  PRIMARY KEY (channel, conversation)
) WITHOUT ROWID;
CREATE TRIGGER titles_gone AFTER DELETE ON turns BEGIN
  DELETE FROM titles WHERE channel = old.channel AND conversation = old.conversation
    AND (turn = old.id OR NOT EXISTS (SELECT 1 FROM turns WHERE channel = old.channel AND conversation = old.conversation));
END;
CREATE TRIGGER changes_titles_insert AFTER INSERT ON titles WHEN new.turn = '' BEGIN
  DELETE FROM changes WHERE kind = 'conversations' AND id = new.channel || '/' || new.conversation;
  INSERT INTO changes (kind, id, of, at) VALUES ('conversations', new.channel || '/' || new.conversation, coalesce(
    (SELECT sender FROM turns WHERE channel = new.channel AND conversation = new.conversation ORDER BY id DESC LIMIT 1), ''), unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_titles_update AFTER UPDATE ON titles WHEN new.turn = '' BEGIN
  DELETE FROM changes WHERE kind = 'conversations' AND id = new.channel || '/' || new.conversation;
  INSERT INTO changes (kind, id, of, at) VALUES ('conversations', new.channel || '/' || new.conversation, coalesce(
    (SELECT sender FROM turns WHERE channel = new.channel AND conversation = new.conversation ORDER BY id DESC LIMIT 1), ''), unixepoch() * 1000000000);
END;
