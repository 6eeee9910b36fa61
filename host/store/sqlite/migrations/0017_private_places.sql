-- A private chat had the key of a group with the same id: "channel:id". It gets one that says that it is private: "channel/dm:sender", or
-- "channel/chat:id" where its id is not its sender's. Of a session in which both spoke each turn goes where it belongs.
CREATE TABLE private_turns (
  id  TEXT PRIMARY KEY,
  was TEXT NOT NULL,
  now TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX private_turns_was ON private_turns (was);

INSERT INTO private_turns (id, was, now)
  SELECT id, session, channel || CASE sender WHEN channel || ':' || conversation THEN '/dm:' ELSE '/chat:' END || substr(session, length(channel) + 2)
  FROM turns
  WHERE parent = '' AND channel NOT IN ('web', 'terminal', 'mcp', 'openai', 'schedule') AND json_extract(CAST(place AS TEXT), '$.kind') = 'dm'
    AND substr(session, 1, length(channel) + length(conversation) + 2) = channel || ':' || conversation || ':';

-- Workspaces are called by the first session of an agent in a place. The next start renames their folders, and removes what the engine
-- has under the old name.
INSERT INTO leftovers (kind, name)
  SELECT DISTINCT 'moved', json_array(t.channel || ':' || t.conversation || ':' || t.agent,
    substr(p.now, 1, instr(p.now, '/')) || CASE t.sender WHEN t.channel || ':' || t.conversation THEN 'dm:' ELSE 'chat:' END || t.conversation || ':' || t.agent)
  FROM private_turns p JOIN turns t ON t.id = p.id
  WHERE true ON CONFLICT DO NOTHING;
INSERT INTO leftovers (kind, name)
  SELECT DISTINCT 'home', json_extract(name, '$[0]') FROM leftovers WHERE kind = 'moved' ON CONFLICT DO NOTHING;

-- What people chose there and how often they began anew counts for both.
INSERT INTO places (key, epoch, began, why, agent, tier)
  SELECT DISTINCT t.channel || CASE t.sender WHEN t.channel || ':' || t.conversation THEN '/dm:' ELSE '/chat:' END || t.conversation,
    w.epoch, w.began, w.why, w.agent, w.tier
  FROM private_turns p JOIN turns t ON t.id = p.id JOIN places w ON w.key = t.channel || ':' || t.conversation
  WHERE true ON CONFLICT (key) DO UPDATE SET epoch = max(places.epoch, excluded.epoch);

-- A summary of what both said, or of one of two sessions that become one, stands for too much or too little.
DELETE FROM summaries WHERE session IN (
  SELECT p.was FROM private_turns p WHERE EXISTS (SELECT 1 FROM turns t WHERE t.session = p.now)
    OR EXISTS (SELECT 1 FROM turns t WHERE t.session = p.was AND t.id NOT IN (SELECT id FROM private_turns)));
DELETE FROM summaries WHERE session IN (SELECT now FROM private_turns);

INSERT INTO sessions (key, agent, turns, last)
  SELECT p.now, s.agent, count(*), max(s.last) FROM private_turns p JOIN sessions s ON s.key = p.was GROUP BY p.now
  ON CONFLICT (key) DO UPDATE SET turns = sessions.turns + excluded.turns, last = max(sessions.last, excluded.last);
UPDATE sessions SET turns = turns - (SELECT count(*) FROM private_turns WHERE was = sessions.key) WHERE key IN (SELECT was FROM private_turns);

-- Turns that were delegated in them go with them.
INSERT INTO private_turns (id, was, now)
  WITH RECURSIVE family (id, was, now) AS (
    SELECT id, was, now FROM private_turns
    UNION SELECT t.id, t.session, f.now || '/' || t.id FROM family f JOIN turns t ON t.parent = f.id WHERE t.parent <> '')
  SELECT id, was, now FROM family WHERE id NOT IN (SELECT id FROM private_turns);
UPDATE turns SET session = (SELECT now FROM private_turns WHERE id = turns.id) WHERE id IN (SELECT id FROM private_turns);
DELETE FROM sessions WHERE key IN (SELECT was FROM private_turns) AND NOT EXISTS (SELECT 1 FROM turns WHERE session = sessions.key);

UPDATE summaries SET session = (SELECT now FROM private_turns WHERE was = summaries.session LIMIT 1) WHERE session IN (SELECT was FROM private_turns);
UPDATE results SET session = (SELECT now FROM private_turns WHERE was = results.session LIMIT 1) WHERE session IN (SELECT was FROM private_turns);
UPDATE usage SET session = (SELECT now FROM private_turns WHERE id = usage.turn) WHERE turn IN (SELECT id FROM private_turns);
UPDATE egress SET session = (SELECT now FROM private_turns WHERE was = egress.session LIMIT 1) WHERE session IN (SELECT was FROM private_turns);
UPDATE audit SET session = (SELECT now FROM private_turns WHERE id = audit.turn) WHERE turn IN (SELECT id FROM private_turns);
UPDATE approvals SET body = CAST(json_set(CAST(body AS TEXT), '$.Session',
    (SELECT now FROM private_turns WHERE id = json_extract(CAST(body AS TEXT), '$.Turn'))) AS BLOB)
  WHERE json_extract(CAST(body AS TEXT), '$.Turn') IN (SELECT id FROM private_turns);
UPDATE grants SET body = CAST(json_set(CAST(body AS TEXT), '$.session',
    (SELECT now FROM private_turns WHERE was = json_extract(CAST(body AS TEXT), '$.session') LIMIT 1)) AS BLOB)
  WHERE json_extract(CAST(body AS TEXT), '$.session') IN (SELECT was FROM private_turns);

DROP TABLE private_turns;
