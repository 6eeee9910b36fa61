-- Requests that clients have given keys, and their answers, so that a repetition is answered and not carried out.
CREATE TABLE keyed (
  caller TEXT NOT NULL,
  key    TEXT NOT NULL,
  print  BLOB NOT NULL,
  begun  INTEGER NOT NULL,
  done   INTEGER NOT NULL,
  status INTEGER NOT NULL,
  type   TEXT NOT NULL,
  body   BLOB NOT NULL,
  PRIMARY KEY (caller, key)
) WITHOUT ROWID;
CREATE INDEX keyed_begun ON keyed (begun);
