-- What model calls cost, a row for each attempt that a provider charged for. cost is in billionths of a US dollar.
CREATE TABLE usage (
  id          INTEGER PRIMARY KEY,
  at          INTEGER NOT NULL,
  day         TEXT NOT NULL,
  turn        TEXT NOT NULL,
  step        INTEGER NOT NULL,
  session     TEXT NOT NULL,
  sender      TEXT NOT NULL,
  agent       TEXT NOT NULL,
  task        TEXT NOT NULL,
  tier        TEXT NOT NULL,
  provider    TEXT NOT NULL,
  model       TEXT NOT NULL,
  attempt     INTEGER NOT NULL,
  failure     TEXT NOT NULL,
  input       INTEGER NOT NULL,
  output      INTEGER NOT NULL,
  cache_read  INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  cost        INTEGER NOT NULL,
  estimated   INTEGER NOT NULL
);
CREATE INDEX usage_at ON usage (at);
CREATE INDEX usage_turn ON usage (turn);
