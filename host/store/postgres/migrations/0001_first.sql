-- The whole schema of the SQLite migrations up to 0027, with the same tables and columns. What differs:
--
--  * Text is compared by its bytes, as in SQLite, whatever the collation of the database is.
--  * Bodies in JSON are BYTEA, because Postgres cannot keep the character zero in a text. In a TEXT column the host writes it, bytes that
--    are not UTF-8, and U+F8FE itself as U+F8FE and two hexadecimal digits for each byte.
--  * Functions with the names of SQLite's let both databases share their statements.
--  * Changes are recorded when a transaction commits, so that their numbers are in the order of the commits.

-- utf8 returns the JSON text of a body in which \u0000 is written as in TEXT columns, and halves of surrogate pairs are replaced.
CREATE FUNCTION utf8(body BYTEA) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE t TEXT := convert_from(body, 'UTF8');
BEGIN
  IF strpos(t, U&'\F8FE') > 0 THEN
    t := replace(t, U&'\F8FE', U&'\F8FEef\F8FEa3\F8FEbe');
  END IF;
  IF strpos(t, '\u0000') > 0 THEN
    t := regexp_replace(t, '(?<!\\)((\\\\)*)\\u0000', '\1' || U&'\F8FE' || '00', 'g');
  END IF;
  IF t ~ '\\u[dD][89a-fA-F]' THEN
    t := regexp_replace(t, '\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])', '\ufffd', 'g');
    t := regexp_replace(t, '(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}', '\ufffd', 'g');
  END IF;
  RETURN t;
END $$;
CREATE FUNCTION utf8(body TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT body';

-- json_path returns the elements of a path such as $.conversation.id or $[0].
CREATE FUNCTION json_path(path TEXT) RETURNS TEXT[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  AS $$ SELECT string_to_array(trim('.' from replace(translate(path, '$[', '..'), ']', '')), '.') $$;
CREATE FUNCTION json_extract(body TEXT, path TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  AS $$ SELECT body::json #>> json_path(path) $$;
-- json_type returns 'true' and 'false' for the two, as SQLite does.
CREATE FUNCTION json_type(body TEXT, path TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  AS $$ SELECT CASE json_typeof(body::json #> json_path(path)) WHEN 'boolean' THEN body::json #>> json_path(path) ELSE json_typeof(body::json #> json_path(path)) END $$;
CREATE FUNCTION json_each(list TEXT) RETURNS TABLE (key BIGINT, value TEXT) LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 20
  AS $$ SELECT n - 1, v FROM json_array_elements_text(CASE json_typeof(list::json) WHEN 'array' THEN list::json ELSE '[]' END) WITH ORDINALITY AS e (v, n) $$;
CREATE FUNCTION instr(text TEXT, part TEXT) RETURNS BIGINT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT strpos(text, part)::bigint';
CREATE FUNCTION unixepoch(at TEXT) RETURNS BIGINT LANGUAGE sql STABLE STRICT PARALLEL SAFE
  AS 'SELECT floor(extract(epoch FROM at::timestamptz))::bigint';

-- search_text returns a text as its words are compared: in small letters, without diacritics and punctuation. lower needs a collation that
-- knows more letters than ASCII.
DO $do$
DECLARE c TEXT := coalesce((SELECT 'COLLATE "und-x-icu"' FROM pg_collation WHERE collname = 'und-x-icu' LIMIT 1), '');
BEGIN
  EXECUTE format($f$
    CREATE FUNCTION search_text(t TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
      SELECT regexp_replace(
        lower(regexp_replace(normalize(regexp_replace(t, U&'\F8FE' || '..', ' ', 'g'), NFD), U&'[\0300-\036F]', '', 'g') %s),
        U&'[\0001-/:-@\005B-`{-\00BF\2000-\206F\3000-\303F]+', ' ', 'g') $$
  $f$, c);
END $do$;
CREATE FUNCTION search_words(t TEXT) RETURNS TSVECTOR LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  AS $$ SELECT to_tsvector('simple', search_text(left(t, 200000))) $$; -- a tsvector has less than 1 MiB
-- search_query asks for all words of a JSON list, or for any; the last may be the beginning of one.
CREATE FUNCTION search_query(words TEXT, either BOOLEAN, beginning BOOLEAN) RETURNS TSQUERY LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
  q TSQUERY := '';
  list TEXT[] := ARRAY(SELECT value FROM json_each(words) ORDER BY key);
  w TSQUERY;
BEGIN
  FOR i IN 1 .. cardinality(list) LOOP
    w := phraseto_tsquery('simple', search_text(list[i]));
    IF numnode(w) > 0 THEN
      IF beginning AND i = cardinality(list) THEN
        w := (w::text || ':*')::tsquery;
      END IF;
      q := CASE WHEN numnode(q) = 0 THEN w WHEN either THEN q || w ELSE q && w END;
    END IF;
  END LOOP;
  RETURN q;
END $$;

-- Who writes here. A commit sets commits to a number of its own, by which a host whose connection broke finds out whether it has
-- happened; it also locks the row, so that a new incarnation waits for it. moves grows whenever a key moves to another host.
CREATE TABLE hosts (
  id TEXT COLLATE "C" PRIMARY KEY,
  incarnation TEXT COLLATE "C" NOT NULL,
  epoch BIGINT NOT NULL,
  moves BIGINT NOT NULL DEFAULT 0,
  commits BIGINT NOT NULL DEFAULT 0,
  seen BIGINT NOT NULL DEFAULT 0
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
INSERT INTO hosts (id, incarnation, epoch) VALUES ('home', '', 0);
-- fence begins every transaction of a host. It fails if another incarnation has replaced the host, or if keys have moved since it had read
-- what it owns; a negative number stands for a host that has yet to read that. As an error it ends all that was sent with it, COMMIT
-- included.
CREATE FUNCTION fence(host TEXT, current TEXT, known BIGINT, token BIGINT) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE n BIGINT;
BEGIN
  UPDATE hosts SET commits = token WHERE id = host AND incarnation = current RETURNING moves INTO n;
  IF n IS NULL THEN
    RAISE EXCEPTION 'another incarnation of the host has replaced this one' USING ERRCODE = 'FL001';
  ELSIF known >= 0 AND n <> known THEN
    RAISE EXCEPTION 'keys have moved to other hosts' USING ERRCODE = 'FL002';
  END IF;
  RETURN n;
END $$;

-- Who writes for what has moved. What has no row belongs to the host 'home'.
CREATE TABLE owners (
  key TEXT COLLATE "C" PRIMARY KEY,
  host TEXT COLLATE "C" NOT NULL,
  epoch BIGINT NOT NULL
) WITH (fillfactor = 70);

-- The version of the schema, and of the Flynn that has written the store last.
CREATE TABLE written_by (
  id BIGINT PRIMARY KEY CHECK (id = 1),
  schema BIGINT NOT NULL,
  version TEXT COLLATE "C" NOT NULL
);
INSERT INTO written_by (id, schema, version) VALUES (1, 0, '');

CREATE TABLE inbox (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  channel TEXT COLLATE "C" NOT NULL,
  event_id TEXT COLLATE "C" NOT NULL,
  message BYTEA NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  note TEXT COLLATE "C" NOT NULL DEFAULT '',
  UNIQUE (channel, event_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX inbox_new ON inbox (id) WHERE state = 'new';
CREATE INDEX inbox_noted ON inbox (id) WHERE state = 'noted';

CREATE TABLE sessions (
  key TEXT COLLATE "C" PRIMARY KEY,
  agent TEXT COLLATE "C" NOT NULL,
  turns BIGINT NOT NULL,
  last BIGINT NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE TABLE turns (
  id TEXT COLLATE "C" PRIMARY KEY,
  session TEXT COLLATE "C" NOT NULL,
  agent TEXT COLLATE "C" NOT NULL,
  channel TEXT COLLATE "C" NOT NULL,
  conversation TEXT COLLATE "C" NOT NULL,
  place BYTEA NOT NULL,
  sender TEXT COLLATE "C" NOT NULL,
  inbox BYTEA NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  error TEXT COLLATE "C" NOT NULL,
  started BIGINT NOT NULL,
  ended BIGINT NOT NULL,
  parent TEXT COLLATE "C" NOT NULL DEFAULT '',
  parent_call TEXT COLLATE "C" NOT NULL DEFAULT '',
  background BOOLEAN NOT NULL DEFAULT FALSE
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX turns_session ON turns (session, id);
CREATE INDEX turns_conversation ON turns (channel, conversation, id);
CREATE INDEX turns_running ON turns (id) WHERE state = 'running';
CREATE UNIQUE INDEX turns_parent ON turns (parent, parent_call) WHERE parent <> '';
CREATE INDEX turns_sender ON turns (sender, id);

CREATE TABLE steps (
  turn TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  data BYTEA NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (turn, seq)
);

CREATE TABLE outbox (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  key TEXT COLLATE "C" NOT NULL,
  turn TEXT COLLATE "C" NOT NULL,
  reply BYTEA NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  attempts BIGINT NOT NULL DEFAULT 0,
  next_try BIGINT NOT NULL DEFAULT 0,
  note TEXT COLLATE "C" NOT NULL DEFAULT '',
  platform_ids BYTEA NOT NULL DEFAULT '[]',
  parts BYTEA NOT NULL DEFAULT '[]',
  part BIGINT NOT NULL DEFAULT 0,
  pause BIGINT NOT NULL DEFAULT 0,
  UNIQUE (key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX outbox_unsent ON outbox (id) WHERE state IN ('pending', 'sending');
CREATE INDEX outbox_turn ON outbox (turn);

CREATE TABLE approvals (
  id TEXT COLLATE "C" PRIMARY KEY,
  state TEXT COLLATE "C" NOT NULL,
  body BYTEA NOT NULL
);
CREATE INDEX approvals_state ON approvals (state, id);
CREATE INDEX approvals_turn ON approvals (json_extract(utf8(body), '$.Turn') COLLATE "C");

-- A long message is asked about again and again, by every policy and for every tool call of its turn; it is kept once.
CREATE TABLE decision_texts (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  digest BYTEA NOT NULL UNIQUE,
  body TEXT COLLATE "C" NOT NULL
);

-- The tables that only grow, and whose rows all expire after the same time, have a partition for each month, so that what has expired goes at once
-- and leaves no gaps. Rows of months that have none are in the partition "other".
--
-- month_begins returns the first nanosecond of the month that lies so many months after that of a time.
CREATE FUNCTION month_begins(at BIGINT, months INT) RETURNS BIGINT LANGUAGE sql IMMUTABLE STRICT
  AS $$ SELECT (extract(epoch FROM date_trunc('month', to_timestamp(at / 1000000000) AT TIME ZONE 'UTC') + make_interval(months => months)) * 1000000000)::bigint $$;
-- add_months adds to each of the tables the partitions of the month of a time and of the next three, except for months whose rows are in "other" already.
CREATE FUNCTION add_months(at BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
  parent TEXT;
  first BIGINT;
  after BIGINT;
  name TEXT;
  taken BOOLEAN;
BEGIN
  FOREACH parent IN ARRAY ARRAY['decisions', 'usage', 'audit'] LOOP
    FOR i IN 0 .. 3 LOOP
      first := month_begins(at, i);
      after := month_begins(at, i + 1);
      name := parent || to_char(to_timestamp(first / 1000000000) AT TIME ZONE 'UTC', '_YYYY_MM');
      CONTINUE WHEN to_regclass(quote_ident(name)) IS NOT NULL;
      EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I WHERE at >= $1 AND at < $2)', parent || '_other') INTO taken USING first, after;
      CONTINUE WHEN taken;
      EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%s) TO (%s)', name, parent, first, after);
    END LOOP;
  END LOOP;
END $$;
-- drop_months drops the partitions of months that ended before a time, and returns how many rows they had. While somebody reads or writes the table for
-- long, it drops nothing.
CREATE FUNCTION drop_months(parent TEXT, before BIGINT) RETURNS BIGINT LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
  name TEXT;
  n BIGINT;
  gone BIGINT := 0;
BEGIN
  FOR name IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = parent::regclass AND c.relname ~ ('^' || parent || '_\d{4}_\d\d$') ORDER BY c.relname
  LOOP
    EXIT WHEN month_begins((extract(epoch FROM to_date(right(name, 7), 'YYYY_MM')) * 1000000000)::bigint, 1) > before;
    EXECUTE format('SELECT count(*) FROM %I', name) INTO n;
    EXECUTE format('DROP TABLE %I', name);
    gone := gone + n;
  END LOOP;
  RETURN gone;
EXCEPTION WHEN lock_not_available THEN
  RETURN 0;
END $$;

CREATE TABLE decisions (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY,
  at BIGINT NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  turn TEXT COLLATE "C" NOT NULL,
  policy TEXT COLLATE "C" NOT NULL,
  digest TEXT COLLATE "C" NOT NULL,
  frame BYTEA,
  calls BYTEA,
  answer TEXT COLLATE "C" NOT NULL,
  reason TEXT COLLATE "C" NOT NULL,
  error TEXT COLLATE "C" NOT NULL,
  fuel BIGINT NOT NULL,
  nanos BIGINT NOT NULL,
  file TEXT COLLATE "C" NOT NULL DEFAULT '',
  raw BIGINT NOT NULL DEFAULT 0,
  rule BIGINT NOT NULL DEFAULT 0,
  args BYTEA,
  text BIGINT REFERENCES decision_texts (id),
  PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
CREATE TABLE decisions_other PARTITION OF decisions DEFAULT;
CREATE INDEX decisions_turn ON decisions (turn);
CREATE INDEX decisions_at ON decisions (at);
CREATE INDEX decisions_policy ON decisions (policy, at);
CREATE INDEX decisions_text ON decisions (text) WHERE text IS NOT NULL;

CREATE TABLE egress (
  seq BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL,
  at BIGINT NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  session TEXT COLLATE "C" NOT NULL,
  agent TEXT COLLATE "C" NOT NULL,
  method TEXT COLLATE "C" NOT NULL,
  host TEXT COLLATE "C" NOT NULL,
  port BIGINT NOT NULL,
  addrs TEXT COLLATE "C" NOT NULL,
  allowed BOOLEAN NOT NULL,
  reason TEXT COLLATE "C" NOT NULL,
  credential BOOLEAN NOT NULL,
  up BIGINT NOT NULL,
  down BIGINT NOT NULL,
  ended BIGINT NOT NULL,
  UNIQUE (id)
);
CREATE INDEX egress_at ON egress (at);
CREATE INDEX egress_session ON egress (session, seq);

CREATE TABLE shadow_differences (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  at BIGINT NOT NULL,
  policy TEXT COLLATE "C" NOT NULL,
  digest TEXT COLLATE "C" NOT NULL,
  file TEXT COLLATE "C" NOT NULL,
  against TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  was TEXT COLLATE "C" NOT NULL,
  was_why TEXT COLLATE "C" NOT NULL,
  now TEXT COLLATE "C" NOT NULL,
  now_why TEXT COLLATE "C" NOT NULL,
  channel TEXT COLLATE "C" NOT NULL,
  sender TEXT COLLATE "C" NOT NULL,
  tool TEXT COLLATE "C" NOT NULL
);
CREATE INDEX shadow_differences_policy ON shadow_differences (policy, at);
CREATE INDEX shadow_differences_at ON shadow_differences (at);

CREATE TABLE shadow_counts (
  day BIGINT NOT NULL,
  policy TEXT COLLATE "C" NOT NULL,
  digest TEXT COLLATE "C" NOT NULL,
  file TEXT COLLATE "C" NOT NULL,
  against TEXT COLLATE "C" NOT NULL,
  outcome TEXT COLLATE "C" NOT NULL,
  count BIGINT NOT NULL,
  PRIMARY KEY (day, policy, digest, against, outcome)
);

CREATE TABLE policy_modules (
  digest TEXT COLLATE "C" PRIMARY KEY,
  file TEXT COLLATE "C" NOT NULL,
  policy TEXT COLLATE "C" NOT NULL,
  version TEXT COLLATE "C" NOT NULL,
  source TEXT COLLATE "C" NOT NULL,
  at BIGINT NOT NULL
);

CREATE TABLE policy_history (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  at BIGINT NOT NULL,
  policy TEXT COLLATE "C" NOT NULL,
  path TEXT COLLATE "C" NOT NULL,
  outcome TEXT COLLATE "C" NOT NULL,
  file TEXT COLLATE "C" NOT NULL,
  digest TEXT COLLATE "C" NOT NULL,
  version TEXT COLLATE "C" NOT NULL,
  source TEXT COLLATE "C" NOT NULL,
  over TEXT COLLATE "C" NOT NULL,
  now_file TEXT COLLATE "C" NOT NULL,
  now_digest TEXT COLLATE "C" NOT NULL,
  who TEXT COLLATE "C" NOT NULL,
  reason TEXT COLLATE "C" NOT NULL
);
CREATE INDEX policy_history_policy ON policy_history (policy, id);

CREATE TABLE plugin_values (
  instance TEXT COLLATE "C" NOT NULL,
  key BYTEA NOT NULL,
  value BYTEA NOT NULL
);
CREATE UNIQUE INDEX plugin_values_key ON plugin_values (instance, key);

CREATE TABLE plugin_values_usage (
  instance TEXT COLLATE "C" PRIMARY KEY,
  keys BIGINT NOT NULL,
  bytes BIGINT NOT NULL
);

CREATE TABLE drafts (
  inbox BIGINT PRIMARY KEY,
  key TEXT COLLATE "C" NOT NULL,
  message_id TEXT COLLATE "C" NOT NULL,
  sent_at BIGINT NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE TABLE pairings (
  sender TEXT COLLATE "C" PRIMARY KEY,
  state TEXT COLLATE "C" NOT NULL,
  body BYTEA NOT NULL
);

CREATE TABLE pairing_guesses (
  guesser TEXT COLLATE "C" PRIMARY KEY,
  wrong BIGINT NOT NULL,
  since BIGINT NOT NULL,
  locked BIGINT NOT NULL
);

CREATE TABLE places (
  key TEXT COLLATE "C" PRIMARY KEY,
  epoch BIGINT NOT NULL,
  began BIGINT NOT NULL,
  why TEXT COLLATE "C" NOT NULL,
  agent TEXT COLLATE "C" NOT NULL,
  tier TEXT COLLATE "C" NOT NULL
);

CREATE TABLE halt (
  id BIGINT PRIMARY KEY CHECK (id = 1),
  stopped BOOLEAN NOT NULL,
  reason TEXT COLLATE "C" NOT NULL,
  by TEXT COLLATE "C" NOT NULL,
  since BIGINT NOT NULL
);

CREATE TABLE usage (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY,
  at BIGINT NOT NULL,
  day TEXT COLLATE "C" NOT NULL,
  turn TEXT COLLATE "C" NOT NULL,
  step BIGINT NOT NULL,
  session TEXT COLLATE "C" NOT NULL,
  sender TEXT COLLATE "C" NOT NULL,
  agent TEXT COLLATE "C" NOT NULL,
  task TEXT COLLATE "C" NOT NULL,
  tier TEXT COLLATE "C" NOT NULL,
  provider TEXT COLLATE "C" NOT NULL,
  model TEXT COLLATE "C" NOT NULL,
  attempt BIGINT NOT NULL,
  failure TEXT COLLATE "C" NOT NULL,
  input BIGINT NOT NULL,
  output BIGINT NOT NULL,
  cache_read BIGINT NOT NULL,
  cache_write BIGINT NOT NULL,
  cost BIGINT NOT NULL,
  estimated BOOLEAN NOT NULL,
  PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
CREATE TABLE usage_other PARTITION OF usage DEFAULT;
CREATE INDEX usage_at ON usage (at);
CREATE INDEX usage_turn ON usage (turn);

CREATE TABLE notes (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  agent TEXT COLLATE "C" NOT NULL,
  person TEXT COLLATE "C" NOT NULL,
  key TEXT COLLATE "C" NOT NULL,
  text TEXT COLLATE "C" NOT NULL,
  sender TEXT COLLATE "C" NOT NULL,
  turn TEXT COLLATE "C" NOT NULL,
  labels BYTEA NOT NULL,
  updated BIGINT NOT NULL,
  extracted BOOLEAN NOT NULL DEFAULT FALSE,
  mended_by TEXT COLLATE "C" NOT NULL DEFAULT '',
  mended BIGINT NOT NULL DEFAULT 0,
  words TSVECTOR GENERATED ALWAYS AS (search_words(key || ' ' || text)) STORED,
  UNIQUE (agent, person, key)
);
CREATE INDEX notes_words ON notes USING gin (words);
CREATE INDEX notes_person ON notes (person, agent);
CREATE INDEX notes_turn ON notes (turn) WHERE turn <> '';
CREATE INDEX notes_updated ON notes (updated, id);

CREATE TABLE extractions (
  turn TEXT COLLATE "C" PRIMARY KEY,
  attempts BIGINT NOT NULL DEFAULT 0
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE TABLE summaries (
  session TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  through TEXT COLLATE "C" NOT NULL,
  turns BIGINT NOT NULL,
  text TEXT COLLATE "C" NOT NULL,
  labels BYTEA NOT NULL,
  made_in TEXT COLLATE "C" NOT NULL,
  tokens BIGINT NOT NULL,
  cost DOUBLE PRECISION NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (session, id)
);
CREATE INDEX summaries_at ON summaries (at);

CREATE TABLE results (
  session TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  tool TEXT COLLATE "C" NOT NULL,
  text TEXT COLLATE "C" NOT NULL,
  labels BYTEA NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (session, id)
);
CREATE INDEX results_at ON results (at);

CREATE TABLE schedules (
  name TEXT COLLATE "C" PRIMARY KEY,
  timing TEXT COLLATE "C" NOT NULL,
  upto BIGINT NOT NULL,
  failures BIGINT NOT NULL,
  paused TEXT COLLATE "C" NOT NULL
);

CREATE TABLE schedule_runs (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  schedule TEXT COLLATE "C" NOT NULL,
  event TEXT COLLATE "C" NOT NULL,
  due BIGINT NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  count BIGINT NOT NULL,
  note TEXT COLLATE "C" NOT NULL,
  at BIGINT NOT NULL,
  UNIQUE (schedule, event)
);
CREATE INDEX schedule_runs_open ON schedule_runs (id) WHERE state IN ('due', 'made');

CREATE TABLE grants (
  seq BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL,
  agent TEXT COLLATE "C" NOT NULL,
  tool TEXT COLLATE "C" NOT NULL,
  open_until BIGINT NOT NULL,
  body BYTEA NOT NULL,
  UNIQUE (id)
);
CREATE INDEX grants_open ON grants (agent, tool, open_until);

CREATE TABLE elevations (
  conversation TEXT COLLATE "C" PRIMARY KEY,
  began BIGINT NOT NULL,
  body BYTEA NOT NULL
);

CREATE TABLE audit (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY,
  at BIGINT NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  subject TEXT COLLATE "C" NOT NULL,
  actor TEXT COLLATE "C" NOT NULL,
  session TEXT COLLATE "C" NOT NULL,
  agent TEXT COLLATE "C" NOT NULL,
  tool TEXT COLLATE "C" NOT NULL,
  turn TEXT COLLATE "C" NOT NULL,
  detail TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
CREATE TABLE audit_other PARTITION OF audit DEFAULT;
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_subject ON audit (subject, id);
CREATE INDEX audit_turn ON audit (turn) WHERE turn <> '';

CREATE TABLE leftovers (
  kind TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (kind, name)
);

CREATE TABLE marks (
  name TEXT COLLATE "C" PRIMARY KEY,
  upto BIGINT NOT NULL
);

CREATE TABLE signin_codes (
  digest TEXT COLLATE "C" PRIMARY KEY,
  sender TEXT COLLATE "C" NOT NULL,
  event TEXT COLLATE "C" NOT NULL,
  asked BIGINT NOT NULL,
  expires BIGINT NOT NULL
);

CREATE TABLE signins (
  id TEXT COLLATE "C" PRIMARY KEY,
  digest TEXT COLLATE "C" NOT NULL,
  sender TEXT COLLATE "C" NOT NULL,
  began BIGINT NOT NULL,
  used BIGINT NOT NULL,
  UNIQUE (digest)
);

CREATE TABLE said (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  turn TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  who TEXT COLLATE "C" NOT NULL,
  key TEXT COLLATE "C" NOT NULL,
  at BIGINT NOT NULL,
  text TEXT COLLATE "C" NOT NULL,
  words TSVECTOR GENERATED ALWAYS AS (search_words(text)) STORED
);
CREATE INDEX said_words ON said USING gin (words);
CREATE INDEX said_turn ON said (turn, seq);

CREATE TABLE titles (
  channel TEXT COLLATE "C" NOT NULL,
  conversation TEXT COLLATE "C" NOT NULL,
  title TEXT COLLATE "C" NOT NULL,
  turn TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (channel, conversation)
);

CREATE TABLE keyed (
  caller TEXT COLLATE "C" NOT NULL,
  key TEXT COLLATE "C" NOT NULL,
  print BYTEA NOT NULL,
  begun BIGINT NOT NULL,
  done BOOLEAN NOT NULL,
  status BIGINT NOT NULL,
  type TEXT COLLATE "C" NOT NULL,
  body BYTEA NOT NULL,
  PRIMARY KEY (caller, key)
);
CREATE INDEX keyed_begun ON keyed (begun);

-- What has changed, for pages that are open: one row for each thing, with the number of its latest change. Numbers begin at the time of
-- the store's making, so that a number of another store is known for one.
CREATE TABLE changes (
  seq BIGINT PRIMARY KEY,
  kind TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  of TEXT COLLATE "C" NOT NULL,
  at BIGINT NOT NULL,
  UNIQUE (kind, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX changes_at ON changes (at);

-- Changes up to upto are not kept any more; last is the latest.
CREATE TABLE changes_kept (
  id BIGINT PRIMARY KEY CHECK (id = 1),
  epoch TEXT COLLATE "C" NOT NULL,
  upto BIGINT NOT NULL,
  last BIGINT NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
INSERT INTO changes_kept (id, epoch, upto, last)
  SELECT 1, substr(md5(random()::text || clock_timestamp()::text), 1, 16), now * 1000, now * 1000 FROM (SELECT extract(epoch FROM clock_timestamp())::bigint AS now) n;

-- note_change numbers a change. It locks the row of changes_kept until the commit: numbers are in the order of the commits, and a page
-- that has seen one has seen all before it. The deferred triggers below call it when nothing but the flush is left of a transaction.
CREATE FUNCTION note_change(k TEXT, i TEXT, who TEXT, moment BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE n BIGINT;
BEGIN
  IF EXISTS (SELECT 1 FROM changes c WHERE c.kind = k AND c.id = i AND c.of = who AND c.xmin = pg_current_xact_id()::xid) THEN
    RETURN; -- by this transaction
  END IF;
  UPDATE changes_kept SET last = last + 1 RETURNING last INTO n;
  INSERT INTO changes (seq, kind, id, of, at) VALUES (n, k, i, who, coalesce(moment, extract(epoch FROM clock_timestamp())::bigint * 1000000000))
    ON CONFLICT (kind, id) DO UPDATE SET seq = excluded.seq, of = excluded.of, at = excluded.at;
END $$;
-- note_foreign_change is for what is not in the store. Without a sender the one that is known stays.
CREATE FUNCTION note_foreign_change(k TEXT, i TEXT, who TEXT, moment BIGINT) RETURNS VOID LANGUAGE sql AS $$
  SELECT note_change(k, i, coalesce(nullif(who, ''), (SELECT of FROM changes WHERE kind = k AND id = i), ''), moment) $$;

CREATE FUNCTION changes_conversation() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE body TEXT;
BEGIN
  IF TG_TABLE_NAME = 'inbox' THEN
    body := utf8(NEW.message);
    PERFORM note_change('conversations', NEW.channel || '/' || json_extract(body, '$.conversation.id'),
      CASE WHEN NEW.channel IN ('schedule', 'console') THEN '' ELSE NEW.channel || ':' END || json_extract(body, '$.sender.id'), NULL);
  ELSIF TG_OP = 'DELETE' THEN
    PERFORM note_change('conversations', OLD.channel || '/' || OLD.conversation, OLD.sender, NULL);
  ELSE
    PERFORM note_change('conversations', NEW.channel || '/' || NEW.conversation, NEW.sender, NULL);
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER changes_inbox_insert AFTER INSERT OR UPDATE OF state ON inbox DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION changes_conversation();
CREATE CONSTRAINT TRIGGER changes_turns AFTER INSERT OR UPDATE OR DELETE ON turns DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION changes_conversation();

CREATE FUNCTION changes_title() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  PERFORM note_change('conversations', NEW.channel || '/' || NEW.conversation, coalesce(
    (SELECT sender FROM turns WHERE channel = NEW.channel AND conversation = NEW.conversation ORDER BY id DESC LIMIT 1), ''), NULL);
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER changes_titles AFTER INSERT OR UPDATE ON titles DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.turn = '') EXECUTE FUNCTION changes_title();

CREATE FUNCTION changes_approval() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    PERFORM note_change('approvals', OLD.id, coalesce(json_extract(utf8(OLD.body), '$.Requester'), ''), NULL);
  ELSE
    PERFORM note_change('approvals', NEW.id, coalesce(json_extract(utf8(NEW.body), '$.Requester'), ''), NULL);
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER changes_approvals AFTER INSERT OR UPDATE OR DELETE ON approvals DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION changes_approval();

-- changes_row is for the rest: the kind of change, and the columns with its id and its sender, if there are any.
CREATE FUNCTION changes_row() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE r JSON := NULL;
BEGIN
  IF TG_NARGS > 1 THEN
    r := row_to_json(CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END);
  END IF;
  PERFORM note_change(TG_ARGV[0], coalesce(r ->> TG_ARGV[1], ''), CASE WHEN TG_NARGS > 2 THEN r ->> TG_ARGV[2] ELSE '' END, NULL);
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER changes_grants AFTER INSERT OR UPDATE OR DELETE ON grants DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION changes_row('approvals', 'id');
CREATE CONSTRAINT TRIGGER changes_elevations AFTER INSERT OR UPDATE OR DELETE ON elevations DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION changes_row('approvals', 'conversation');
CREATE CONSTRAINT TRIGGER changes_pairings AFTER INSERT OR UPDATE OR DELETE ON pairings DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION changes_row('people', 'sender');
CREATE CONSTRAINT TRIGGER changes_notes AFTER INSERT OR UPDATE OR DELETE ON notes DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION changes_row('memory', 'id');
CREATE CONSTRAINT TRIGGER changes_schedules AFTER INSERT OR UPDATE OR DELETE ON schedules DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION changes_row('schedules', 'name');
CREATE CONSTRAINT TRIGGER changes_schedule_runs AFTER INSERT OR UPDATE ON schedule_runs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION changes_row('schedules', 'schedule');
CREATE CONSTRAINT TRIGGER changes_policy_history AFTER INSERT ON policy_history DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION changes_row('policies', 'policy');
CREATE CONSTRAINT TRIGGER changes_decisions AFTER INSERT ON decisions DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION changes_row('decisions');
CREATE CONSTRAINT TRIGGER changes_usage AFTER INSERT ON usage DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION changes_row('usage');
CREATE CONSTRAINT TRIGGER changes_halt AFTER INSERT OR UPDATE OR DELETE ON halt DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION changes_row('halt');
CREATE CONSTRAINT TRIGGER changes_signins AFTER INSERT OR DELETE ON signins DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION changes_row('sign-ins', 'id', 'sender');

-- All that people and agents have said, to be searched, is kept like the steps of turns that were not delegated.
CREATE FUNCTION said_step() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE body TEXT;
BEGIN
  IF TG_OP = 'DELETE' THEN
    DELETE FROM said WHERE turn = OLD.turn AND seq = OLD.seq;
    RETURN NULL;
  END IF;
  IF NOT EXISTS (SELECT 1 FROM turns WHERE id = NEW.turn AND parent = '') THEN
    RETURN NULL;
  END IF;
  body := utf8(NEW.data);
  IF NEW.kind = 'model' THEN
    INSERT INTO said (turn, seq, who, key, at, text)
      SELECT NEW.turn, NEW.seq, 'agent', NEW.turn || '/0', NEW.at, t FROM (SELECT json_extract(body, '$.message.text') AS t) m WHERE t <> '';
  ELSIF json_type(body, '$.said') = 'array' THEN
    INSERT INTO said (turn, seq, who, key, at, text)
      SELECT NEW.turn, NEW.seq, 'user', coalesce(json_extract(value, '$.event'), ''), NEW.at, json_extract(value, '$.text')
      FROM json_each(json_extract(body, '$.said')) WHERE json_extract(value, '$.text') <> '' ORDER BY key;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER said_insert AFTER INSERT ON steps FOR EACH ROW WHEN (NEW.kind IN ('user', 'model')) EXECUTE FUNCTION said_step();
CREATE TRIGGER said_delete AFTER DELETE ON steps FOR EACH ROW WHEN (OLD.kind IN ('user', 'model')) EXECUTE FUNCTION said_step();

CREATE FUNCTION titles_gone() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM titles WHERE channel = OLD.channel AND conversation = OLD.conversation
    AND (turn = OLD.id OR NOT EXISTS (SELECT 1 FROM turns WHERE channel = OLD.channel AND conversation = OLD.conversation));
  RETURN NULL;
END $$;
CREATE TRIGGER titles_gone AFTER DELETE ON turns FOR EACH ROW EXECUTE FUNCTION titles_gone();

SELECT add_months((extract(epoch FROM now()) * 1000000000)::bigint);
