-- The index of what was said is written for several texts at once, so that the latest may not be in it yet: said_text_docsize has a row for each
-- that is.
DROP TRIGGER said_delete;
CREATE TRIGGER said_delete AFTER DELETE ON said WHEN EXISTS (SELECT 1 FROM said_text_docsize WHERE id = old.id) BEGIN
  INSERT INTO said_text (said_text, rowid, text) VALUES ('delete', old.id, old.text);
END;
