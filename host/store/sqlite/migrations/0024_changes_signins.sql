-- Sign-ins are changes, too, but for their use.
CREATE TRIGGER changes_signins_insert AFTER INSERT ON signins BEGIN
  DELETE FROM changes WHERE kind = 'sign-ins' AND id = new.id;
  INSERT INTO changes (kind, id, of, at) VALUES ('sign-ins', new.id, new.sender, unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_signins_delete AFTER DELETE ON signins BEGIN
  DELETE FROM changes WHERE kind = 'sign-ins' AND id = old.id;
  INSERT INTO changes (kind, id, of, at) VALUES ('sign-ins', old.id, old.sender, unixepoch() * 1000000000);
END;
