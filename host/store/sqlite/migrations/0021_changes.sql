-- What has changed, for pages that are open: one row for each thing, with the number of its latest change. Numbers begin at the time of
-- the store's making, so that a number of another store is known for one.
CREATE TABLE changes (
  seq  INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  id   TEXT NOT NULL,
  of   TEXT NOT NULL,
  at   INTEGER NOT NULL,
  UNIQUE (kind, id)
);
CREATE INDEX changes_at ON changes (at);
INSERT INTO sqlite_sequence (name, seq) VALUES ('changes', unixepoch() * 1000);

-- Changes up to the number are not kept any more.
CREATE TABLE changes_kept (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  epoch TEXT NOT NULL,
  upto  INTEGER NOT NULL
);
INSERT INTO changes_kept (id, epoch, upto) VALUES (1, lower(hex(randomblob(8))), unixepoch() * 1000);

CREATE TRIGGER changes_inbox_insert AFTER INSERT ON inbox BEGIN
  DELETE FROM changes WHERE kind = 'conversations' AND id = new.channel || '/' || json_extract(CAST(new.message AS TEXT), '$.conversation.id');
  INSERT INTO changes (kind, id, of, at) VALUES ('conversations', new.channel || '/' || json_extract(CAST(new.message AS TEXT), '$.conversation.id'),
    CASE WHEN new.channel IN ('schedule', 'console') THEN '' ELSE new.channel || ':' END || json_extract(CAST(new.message AS TEXT), '$.sender.id'), unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_inbox_update AFTER UPDATE OF state ON inbox BEGIN
  DELETE FROM changes WHERE kind = 'conversations' AND id = new.channel || '/' || json_extract(CAST(new.message AS TEXT), '$.conversation.id');
  INSERT INTO changes (kind, id, of, at) VALUES ('conversations', new.channel || '/' || json_extract(CAST(new.message AS TEXT), '$.conversation.id'),
    CASE WHEN new.channel IN ('schedule', 'console') THEN '' ELSE new.channel || ':' END || json_extract(CAST(new.message AS TEXT), '$.sender.id'), unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_turns_insert AFTER INSERT ON turns BEGIN
  DELETE FROM changes WHERE kind = 'conversations' AND id = new.channel || '/' || new.conversation;
  INSERT INTO changes (kind, id, of, at) VALUES ('conversations', new.channel || '/' || new.conversation, new.sender, unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_turns_update AFTER UPDATE ON turns BEGIN
  DELETE FROM changes WHERE kind = 'conversations' AND id = new.channel || '/' || new.conversation;
  INSERT INTO changes (kind, id, of, at) VALUES ('conversations', new.channel || '/' || new.conversation, new.sender, unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_turns_delete AFTER DELETE ON turns BEGIN
  DELETE FROM changes WHERE kind = 'conversations' AND id = old.channel || '/' || old.conversation;
  INSERT INTO changes (kind, id, of, at) VALUES ('conversations', old.channel || '/' || old.conversation, old.sender, unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_approvals_insert AFTER INSERT ON approvals BEGIN
  DELETE FROM changes WHERE kind = 'approvals' AND id = new.id;
  INSERT INTO changes (kind, id, of, at) VALUES ('approvals', new.id, coalesce(json_extract(CAST(new.body AS TEXT), '$.Requester'), ''), unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_approvals_update AFTER UPDATE ON approvals BEGIN
  DELETE FROM changes WHERE kind = 'approvals' AND id = new.id;
  INSERT INTO changes (kind, id, of, at) VALUES ('approvals', new.id, coalesce(json_extract(CAST(new.body AS TEXT), '$.Requester'), ''), unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_approvals_delete AFTER DELETE ON approvals BEGIN
  DELETE FROM changes WHERE kind = 'approvals' AND id = old.id;
  INSERT INTO changes (kind, id, of, at) VALUES ('approvals', old.id, coalesce(json_extract(CAST(old.body AS TEXT), '$.Requester'), ''), unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_grants_insert AFTER INSERT ON grants BEGIN
  DELETE FROM changes WHERE kind = 'approvals' AND id = new.id;
  INSERT INTO changes (kind, id, of, at) VALUES ('approvals', new.id, '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_grants_update AFTER UPDATE ON grants BEGIN
  DELETE FROM changes WHERE kind = 'approvals' AND id = new.id;
  INSERT INTO changes (kind, id, of, at) VALUES ('approvals', new.id, '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_grants_delete AFTER DELETE ON grants BEGIN
  DELETE FROM changes WHERE kind = 'approvals' AND id = old.id;
  INSERT INTO changes (kind, id, of, at) VALUES ('approvals', old.id, '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_elevations_insert AFTER INSERT ON elevations BEGIN
  DELETE FROM changes WHERE kind = 'approvals' AND id = new.conversation;
  INSERT INTO changes (kind, id, of, at) VALUES ('approvals', new.conversation, '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_elevations_update AFTER UPDATE ON elevations BEGIN
  DELETE FROM changes WHERE kind = 'approvals' AND id = new.conversation;
  INSERT INTO changes (kind, id, of, at) VALUES ('approvals', new.conversation, '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_elevations_delete AFTER DELETE ON elevations BEGIN
  DELETE FROM changes WHERE kind = 'approvals' AND id = old.conversation;
  INSERT INTO changes (kind, id, of, at) VALUES ('approvals', old.conversation, '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_pairings_insert AFTER INSERT ON pairings BEGIN
  DELETE FROM changes WHERE kind = 'people' AND id = new.sender;
  INSERT INTO changes (kind, id, of, at) VALUES ('people', new.sender, '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_pairings_update AFTER UPDATE ON pairings BEGIN
  DELETE FROM changes WHERE kind = 'people' AND id = new.sender;
  INSERT INTO changes (kind, id, of, at) VALUES ('people', new.sender, '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_pairings_delete AFTER DELETE ON pairings BEGIN
  DELETE FROM changes WHERE kind = 'people' AND id = old.sender;
  INSERT INTO changes (kind, id, of, at) VALUES ('people', old.sender, '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_notes_insert AFTER INSERT ON notes BEGIN
  DELETE FROM changes WHERE kind = 'memory' AND id = CAST(new.id AS TEXT);
  INSERT INTO changes (kind, id, of, at) VALUES ('memory', CAST(new.id AS TEXT), '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_notes_update AFTER UPDATE ON notes BEGIN
  DELETE FROM changes WHERE kind = 'memory' AND id = CAST(new.id AS TEXT);
  INSERT INTO changes (kind, id, of, at) VALUES ('memory', CAST(new.id AS TEXT), '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_notes_delete AFTER DELETE ON notes BEGIN
  DELETE FROM changes WHERE kind = 'memory' AND id = CAST(old.id AS TEXT);
  INSERT INTO changes (kind, id, of, at) VALUES ('memory', CAST(old.id AS TEXT), '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_schedules_insert AFTER INSERT ON schedules BEGIN
  DELETE FROM changes WHERE kind = 'schedules' AND id = new.name;
  INSERT INTO changes (kind, id, of, at) VALUES ('schedules', new.name, '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_schedules_update AFTER UPDATE ON schedules BEGIN
  DELETE FROM changes WHERE kind = 'schedules' AND id = new.name;
  INSERT INTO changes (kind, id, of, at) VALUES ('schedules', new.name, '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_schedules_delete AFTER DELETE ON schedules BEGIN
  DELETE FROM changes WHERE kind = 'schedules' AND id = old.name;
  INSERT INTO changes (kind, id, of, at) VALUES ('schedules', old.name, '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_schedule_runs_insert AFTER INSERT ON schedule_runs BEGIN
  DELETE FROM changes WHERE kind = 'schedules' AND id = new.schedule;
  INSERT INTO changes (kind, id, of, at) VALUES ('schedules', new.schedule, '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_schedule_runs_update AFTER UPDATE ON schedule_runs BEGIN
  DELETE FROM changes WHERE kind = 'schedules' AND id = new.schedule;
  INSERT INTO changes (kind, id, of, at) VALUES ('schedules', new.schedule, '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_policy_history_insert AFTER INSERT ON policy_history BEGIN
  DELETE FROM changes WHERE kind = 'policies' AND id = new.policy;
  INSERT INTO changes (kind, id, of, at) VALUES ('policies', new.policy, '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_decisions_insert AFTER INSERT ON decisions BEGIN
  DELETE FROM changes WHERE kind = 'decisions' AND id = '';
  INSERT INTO changes (kind, id, of, at) VALUES ('decisions', '', '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_usage_insert AFTER INSERT ON usage BEGIN
  DELETE FROM changes WHERE kind = 'usage' AND id = '';
  INSERT INTO changes (kind, id, of, at) VALUES ('usage', '', '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_halt_insert AFTER INSERT ON halt BEGIN
  DELETE FROM changes WHERE kind = 'halt' AND id = '';
  INSERT INTO changes (kind, id, of, at) VALUES ('halt', '', '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_halt_update AFTER UPDATE ON halt BEGIN
  DELETE FROM changes WHERE kind = 'halt' AND id = '';
  INSERT INTO changes (kind, id, of, at) VALUES ('halt', '', '', unixepoch() * 1000000000);
END;
CREATE TRIGGER changes_halt_delete AFTER DELETE ON halt BEGIN
  DELETE FROM changes WHERE kind = 'halt' AND id = '';
  INSERT INTO changes (kind, id, of, at) VALUES ('halt', '', '', unixepoch() * 1000000000);
END;
